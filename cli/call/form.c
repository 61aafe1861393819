/* form.c - see form.h. A field is asked again until its own schema takes it; nothing leaves before the last word. */
#include "form.h"

#include "config/memory.h"

#include <idem/schema.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_FIELDS 100u
#define MOST_CHOICES 1000u

typedef struct field {
  const terminal *at;
  yyjson_val *name;
  yyjson_val *schema;
  bool required;
  bool several;         /* an array of choices */
  yyjson_val **choices; /* their values */
  const char **titles;  /* safe to show */
  size_t choice_count;
} field;

/* ------------------------------------------------------------------------ choices */

static char *safe_copy(yyjson_val *value) {
  text made = {.data = NULL};
  size_t len;
  char *written = yyjson_is_str(value) ? NULL : yyjson_val_write(value, 0, &len);
  if (yyjson_is_str(value))
    text_escape_cut(&made, yyjson_get_str(value), yyjson_get_len(value), 200);
  else if (written)
    text_escape_cut(&made, written, len, 200);
  free(written);
  if (!made.data) text_puts(&made, "");
  return made.data;
}

static void add_choice(field *self, yyjson_val *value, yyjson_val *title) {
  self->choices[self->choice_count] = value;
  self->titles[self->choice_count++] = safe_copy(title ? title : value);
}

/* enum with enumNames, or a list of {const, title}. */
static void read_choices(field *self, yyjson_val *schema) {
  yyjson_val *values = yyjson_obj_get(schema, "enum"), *names = yyjson_obj_get(schema, "enumNames");
  yyjson_val *pairs = yyjson_obj_get(schema, "oneOf"), *one;
  if (!pairs) pairs = yyjson_obj_get(schema, "anyOf");
  yyjson_val *from = values ? values : pairs;
  size_t count = yyjson_arr_size(from);
  if (!count || count > MOST_CHOICES) return;
  self->choices = calloc(count, sizeof *self->choices);
  self->titles = calloc(count, sizeof *self->titles);
  if (!self->choices || !self->titles) memory_exhausted();
  for (size_t i = 0; i < count; i++) {
    one = yyjson_arr_get(from, i);
    if (values)
      add_choice(self, one, yyjson_arr_get(names, i));
    else if (yyjson_obj_get(one, "const"))
      add_choice(self, yyjson_obj_get(one, "const"), yyjson_obj_get(one, "title"));
  }
}

static void free_choices(field *self) {
  for (size_t i = 0; i < self->choice_count; i++) free((char *)self->titles[i]);
  free((void *)self->titles);
  free((void *)self->choices);
}

/* ------------------------------------------------------------------- what is asked */

static bool is_of(const field *self, const char *type) {
  return yyjson_equals_str(yyjson_obj_get(self->schema, "type"), type);
}

/* Forms should not ask for secrets; one that does is not shown to who looks over a shoulder. */
static bool is_secret(const field *self) {
  static const char *const words[] = {"password", "passphrase", "secret", "token",
                                      "api_key",  "apikey",     "api-key"};
  yyjson_val *format = yyjson_obj_get(self->schema, "format");
  if (yyjson_equals_str(format, "password") ||
      yyjson_get_bool(yyjson_obj_get(self->schema, "writeOnly")))
    return true;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcasestr(yyjson_get_str(self->name), words[i])) return true;
  return false;
}

static void put_value(text *out, yyjson_val *value) {
  char *shown = safe_copy(value);
  text_puts(out, shown);
  free(shown);
}

static void put_bound(text *out, const field *self, const char *keyword, const char *words) {
  yyjson_val *value = yyjson_obj_get(self->schema, keyword);
  if (!value) return;
  text_printf(out, ", %s ", words);
  put_value(out, value);
}

static void put_hint(text *out, const field *self) {
  yyjson_val *format = yyjson_obj_get(self->schema, "format");
  const char *type = self->several            ? "numbers, with commas"
                     : self->choice_count     ? "number or arrow keys"
                     : is_of(self, "boolean") ? "y or n"
                     : is_of(self, "integer") ? "whole number"
                     : is_of(self, "number")  ? "number"
                                              : "text";
  text_printf(out, " (%s", type);
  if (yyjson_is_str(format)) {
    text_puts(out, ", ");
    put_value(out, format);
  }
  put_bound(out, self, "minimum", "at least");
  put_bound(out, self, "maximum", "at most");
  put_bound(out, self, "minLength", "letters, at least");
  put_bound(out, self, "maxLength", "letters, at most");
  text_puts(out, self->required ? ")" : ", may be left out)");
}

static void put_prompt(text *out, const field *self) {
  yyjson_val *title = yyjson_obj_get(self->schema, "title");
  yyjson_val *fallback = yyjson_obj_get(self->schema, "default");
  put_value(out, yyjson_is_str(title) ? title : self->name);
  put_hint(out, self);
  if (fallback) {
    text_puts(out, " [");
    put_value(out, fallback);
    text_puts(out, "]");
  }
  text_puts(out, ": ");
}

static void show_choices(const field *self) {
  for (size_t i = 0; i < self->choice_count; i++)
    terminal_printf(self->at, "  %zu  %s\n", i + 1, self->titles[i]);
}

/* ------------------------------------------------------------------- what is taken */

static void put_json(text *out, yyjson_val *value) {
  size_t len;
  char *made = yyjson_val_write(value, 0, &len);
  if (!made) memory_exhausted();
  text_put(out, made, len);
  free(made);
}

static void put_string(text *out, const char *words, size_t len) {
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  size_t made_len;
  char *made = yyjson_mut_val_write_opts(yyjson_mut_strn(doc, words, len),
                                         YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL, &made_len, NULL);
  if (made) text_put(out, made, made_len);
  free(made);
  yyjson_mut_doc_free(doc);
}

/* A number from the list, or a title or value as it stands there. */
static yyjson_val *choice_of(const field *self, const char *words, size_t len) {
  char *end;
  unsigned long number = strtoul(words, &end, 10);
  if (end == words + len && len && number >= 1 && number <= self->choice_count)
    return self->choices[number - 1];
  for (size_t i = 0; i < self->choice_count; i++)
    if (strlen(self->titles[i]) == len && strncasecmp(self->titles[i], words, len) == 0)
      return self->choices[i];
  return NULL;
}

static bool take_several(const field *self, const char *words, text *out) {
  text_puts(out, "[");
  for (bool first = true; *words; first = false) {
    words += strspn(words, " ,");
    size_t len = strcspn(words, ",");
    while (len && words[len - 1] == ' ') len--;
    if (!len) break;
    yyjson_val *one = choice_of(self, words, len);
    if (!one) return false;
    if (!first) text_puts(out, ",");
    put_json(out, one);
    words += strcspn(words, ",");
  }
  text_puts(out, "]");
  return true;
}

static bool take_boolean(const char *words, text *out) {
  static const char *const yes[] = {"y", "yes", "true", "1"}, *const no[] = {"n", "no", "false",
                                                                             "0"};
  for (size_t i = 0; i < 4; i++) {
    bool said = strcasecmp(words, yes[i]) == 0;
    if (!said && strcasecmp(words, no[i]) != 0) continue;
    text_puts(out, said ? "true" : "false");
    return true;
  }
  return false;
}

/* The typed words as JSON; false: they are nothing of the kind. */
static bool take_words(const field *self, const text *line, text *out) {
  if (self->several) return take_several(self, line->data, out);
  if (self->choice_count) {
    yyjson_val *one = choice_of(self, line->data, line->len);
    if (one) put_json(out, one);
    return one != NULL;
  }
  if (is_of(self, "boolean")) return take_boolean(line->data, out);
  if (is_of(self, "integer") || is_of(self, "number")) {
    yyjson_doc *number = yyjson_read(line->data, line->len, YYJSON_READ_NUMBER_AS_RAW);
    bool fine = yyjson_is_raw(yyjson_doc_get_root(number));
    yyjson_doc_free(number);
    if (fine) text_put(out, line->data, line->len);
    return fine;
  }
  put_string(out, line->data, line->len);
  return true;
}

/* By the field's own schema; false: the person has been told what is wrong. */
static bool is_valid(const field *self, const text *value) {
  idem_schema *schema = NULL;
  idem_schema_ctx *ctx = NULL;
  idem_schema_result result = {.valid = true};
  idem_schema_opts opts = {.assert_formats = true};
  idem_schema_check check = {.root_name = "this"};
  if (idem_schema_compile_value(&opts, self->schema, &schema, NULL) == IDEM_OK &&
      idem_schema_ctx_new(NULL, &ctx) == IDEM_OK)
    idem_schema_validate_text(schema, ctx, value->data, value->len, &check, &result);
  if (!result.valid)
    terminal_printf(self->at, "  %s\n",
                    result.error_count ? result.errors[0].sentence : "this does not fit");
  idem_schema_ctx_free(ctx);
  idem_schema_free(schema);
  return result.valid;
}

/* ---------------------------------------------------------------------- the fields */

static void put_member(text *content, const field *self, const char *value, size_t len) {
  text_puts(content, content->len > 1 ? "," : "");
  put_string(content, yyjson_get_str(self->name), yyjson_get_len(self->name));
  text_puts(content, ":");
  text_put(content, value, len);
}

/* An empty line: the default, or nothing. False: something is needed. */
static bool take_nothing(const field *self, text *content) {
  yyjson_val *fallback = yyjson_obj_get(self->schema, "default");
  text value = {.data = NULL};
  if (fallback) {
    put_json(&value, fallback);
    put_member(content, self, value.data, value.len);
    text_free(&value);
    return true;
  }
  if (self->required) terminal_print(self->at, "  this is needed\n");
  return !self->required;
}

static bool take_line(const field *self, const text *line, text *content) {
  text value = {.data = NULL};
  if (!line->len) return take_nothing(self, content);
  bool understood = take_words(self, line, &value);
  if (!understood) terminal_print(self->at, "  this is not one of these values\n");
  bool fine = understood && is_valid(self, &value);
  if (fine) put_member(content, self, value.data, value.len);
  text_free(&value);
  return fine;
}

static line_end ask_field(field *self, text *content) {
  text prompt = {.data = NULL}, line = {.data = NULL};
  yyjson_val *about = yyjson_obj_get(self->schema, "description");
  line_kind kind = {.secret = is_secret(self)};
  line_end end;
  if (yyjson_is_str(about)) {
    terminal_print(self->at, "\n");
    terminal_show(self->at, yyjson_get_str(about), yyjson_get_len(about));
    terminal_print(self->at, "\n");
  }
  show_choices(self);
  put_prompt(&prompt, self);
  if (!self->several && self->choice_count) kind.choices = self->titles;
  kind.chosen = kind.choice_count = kind.choices ? self->choice_count : 0;
  do end = terminal_line(self->at, prompt.data, &kind, &line);
  while (end == LINE_TAKEN && !take_line(self, &line, content));
  if (line.data) explicit_bzero(line.data, line.room);
  text_free(&line);
  text_free(&prompt);
  return end;
}

static bool is_required(yyjson_val *schema, yyjson_val *name) {
  yyjson_val *all = yyjson_obj_get(schema, "required"), *one;
  yyjson_arr_iter at;
  if (!yyjson_arr_iter_init(all, &at)) return false;
  while ((one = yyjson_arr_iter_next(&at)))
    if (yyjson_equals(one, name)) return true;
  return false;
}

static line_end ask_fields(const terminal *at, yyjson_val *schema, text *content) {
  yyjson_obj_iter each;
  yyjson_val *name;
  line_end end = LINE_TAKEN;
  if (!yyjson_obj_iter_init(yyjson_obj_get(schema, "properties"), &each)) return LINE_TAKEN;
  for (size_t i = 0; end == LINE_TAKEN && i < MOST_FIELDS && (name = yyjson_obj_iter_next(&each));
       i++) {
    field one = {.at = at,
                 .name = name,
                 .schema = yyjson_obj_iter_get_val(name),
                 .required = is_required(schema, name)};
    one.several = is_of(&one, "array");
    read_choices(&one, one.several ? yyjson_obj_get(one.schema, "items") : one.schema);
    end = ask_field(&one, content);
    free_choices(&one);
  }
  return end;
}

/* ----------------------------------------------------------------------- the whole */

static void introduce(const terminal *at, const char *server, yyjson_val *params) {
  yyjson_val *message = yyjson_obj_get(params, "message");
  terminal_print(at, "\n");
  terminal_show(at, server, strlen(server));
  terminal_print(at, " asks:\n");
  if (yyjson_is_str(message)) terminal_show(at, yyjson_get_str(message), yyjson_get_len(message));
  terminal_print(at, "\n");
}

static form_end end_of(line_end end) {
  return end == LINE_DECLINED ? FORM_DECLINED : FORM_DISMISSED;
}

/* The last word: Enter sends. */
static form_end confirm(const terminal *at) {
  text line = {.data = NULL};
  line_kind kind = {.secret = false};
  form_end answer = FORM_DISMISSED;
  for (bool asking = true; asking;) {
    line_end end = terminal_line(at, "send this? [Y/n] ", &kind, &line);
    asking = false;
    if (end != LINE_TAKEN)
      answer = end_of(end);
    else if (!line.len || strcasecmp(line.data, "y") == 0 || strcasecmp(line.data, "yes") == 0)
      answer = FORM_ACCEPTED;
    else if (strcasecmp(line.data, "n") == 0 || strcasecmp(line.data, "no") == 0)
      answer = FORM_DECLINED;
    else
      asking = true;
  }
  text_free(&line);
  return answer;
}

form_end form_ask(const terminal *at, const char *server, yyjson_val *params, text *content) {
  yyjson_val *schema = yyjson_obj_get(params, "requestedSchema");
  introduce(at, server, params);
  terminal_print(at, "(Enter takes what stands in [], Ctrl-D declines, Ctrl-C gives no answer)\n");
  text_puts(content, "{");
  line_end end = ask_fields(at, schema, content);
  text_puts(content, "}");
  return end == LINE_TAKEN ? confirm(at) : end_of(end);
}

form_end form_ask_url(const terminal *at, const char *server, yyjson_val *params, bool *open) {
  yyjson_val *url = yyjson_obj_get(params, "url");
  text line = {.data = NULL};
  line_kind kind = {.secret = false};
  form_end answer = FORM_DISMISSED;
  *open = false;
  introduce(at, server, params);
  terminal_print(at, "\n  ");
  if (yyjson_is_str(url)) terminal_show(at, yyjson_get_str(url), yyjson_get_len(url));
  terminal_print(at, "\n\n");
  for (bool asking = true; asking;) {
    line_end end =
        terminal_line(at, "open this page? [o]pen, [a]gree without opening, [n]o: ", &kind, &line);
    char said = end == LINE_TAKEN && line.len == 1 ? line.data[0] : 0;
    asking = end == LINE_TAKEN && (!said || !strchr("oOaAnN", said));
    *open = said == 'o' || said == 'O';
    answer = end != LINE_TAKEN            ? end_of(end)
             : strchr("nN", said) && said ? FORM_DECLINED
                                          : FORM_ACCEPTED;
  }
  text_free(&line);
  return answer;
}
