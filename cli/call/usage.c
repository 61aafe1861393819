/* usage.c - how a tool is called, for who has called it wrongly: its name with its arguments on one line, then what each of them is.
 * Everything is the server's text, and escaped. */
#include "usage.h"

#include "text.h"

#include <idem/json.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_SHOWN 40u
#define CHOICES_SHOWN 12u

static bool is_needed(yyjson_val *schema, yyjson_val *name) {
  yyjson_val *one;
  size_t i, count;
  yyjson_arr_foreach(yyjson_obj_get(schema, "required"), i, count, one) {
    if (yyjson_equals(one, name)) return true;
  }
  return false;
}

static void put_text(text *out, yyjson_val *value, size_t max) {
  if (yyjson_is_str(value)) text_escape_cut(out, yyjson_get_str(value), yyjson_get_len(value), max);
}

/* "fast" or 3, as it is typed. */
static void put_choice(text *out, yyjson_val *one) {
  char *written = yyjson_is_str(one) ? NULL : yyjson_val_write(one, 0, NULL);
  put_text(out, one, 60);
  if (written) text_escape_cut(out, written, strlen(written), 60);
  free(written);
}

/* A choice is said by its members, a list by what is in it. */
static void put_kind(text *out, yyjson_val *schema) {
  yyjson_val *choices = yyjson_obj_get(schema, "enum"), *type = yyjson_obj_get(schema, "type"),
             *one;
  size_t i, count;
  if (yyjson_equals_str(type, "array")) {
    text_puts(out, "list of ");
    type = yyjson_obj_get(yyjson_obj_get(schema, "items"), "type");
  }
  if (!yyjson_is_arr(choices)) {
    put_text(out, type, 40);
    if (!yyjson_is_str(type)) text_puts(out, "JSON");
    return;
  }
  yyjson_arr_foreach(choices, i, count, one) {
    if (i) text_puts(out, "|");
    if (i == CHOICES_SHOWN) {
      text_puts(out, "...");
      return;
    }
    put_choice(out, one);
  }
}

static void put_line(text *out, yyjson_val *tool, yyjson_val *schema) {
  yyjson_val *key, *value;
  size_t i, count;
  text_puts(out, "usage: ");
  put_text(out, yyjson_obj_get(tool, "name"), 128);
  idem_each_member(yyjson_obj_get(schema, "properties"), i, count, key, value) {
    bool needed = is_needed(schema, key);
    (void)value;
    if (i == ARGUMENTS_SHOWN) {
      text_puts(out, " ...");
      break;
    }
    text_puts(out, needed ? " " : " [");
    put_text(out, key, 64);
    text_puts(out, needed ? "=" : "=]");
  }
  text_puts(out, "\n");
}

static void put_row(text *out, yyjson_val *key, yyjson_val *value, size_t column) {
  size_t from = out->len;
  yyjson_val *about = yyjson_obj_get(value, "description");
  text_puts(out, "  ");
  put_text(out, key, 64);
  text_pad(out, from, column);
  put_kind(out, value);
  if (yyjson_get_len(about)) text_puts(out, "  ");
  put_text(out, about, 200);
  text_puts(out, "\n");
}

static size_t column_of(yyjson_val *properties) {
  size_t i, count, widest = 8;
  yyjson_val *key, *value;
  idem_each_member(properties, i, count, key, value) {
    size_t len = yyjson_get_len(key);
    (void)value;
    if (len > widest && len <= 30) widest = len;
  }
  return widest + 4;
}

void usage_show(FILE *out, yyjson_val *tool) {
  yyjson_val *schema = yyjson_obj_get(tool, "inputSchema"), *key, *value;
  yyjson_val *properties = yyjson_obj_get(schema, "properties");
  size_t i, count, column = column_of(properties);
  text shown = {.data = NULL};
  put_line(&shown, tool, schema);
  idem_each_member(properties, i, count, key, value) {
    if (i < ARGUMENTS_SHOWN) put_row(&shown, key, value, column);
  }
  fwrite(shown.data, 1, shown.len, out);
  text_free(&shown);
}
