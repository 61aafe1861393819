/* build.c - writing JSON by hand: commas, keys and sticky errors. */
#include "build.h"

#include <math.h>
#include <string.h>

static void put(idem__writer *writer, const char *text, size_t len) {
  if (writer->status == IDEM_OK) writer->status = idem_buf_put(writer->out, text, len);
}

static void separate(idem__writer *writer) {
  if (writer->comma) put(writer, ",", 1);
}

static void open_with(idem__writer *writer, const char *bracket) {
  separate(writer);
  put(writer, bracket, 1);
  writer->comma = false;
}

static void close_with(idem__writer *writer, const char *bracket) {
  put(writer, bracket, 1);
  writer->comma = true;
}

void idem__write_object(idem__writer *writer) { open_with(writer, "{"); }
void idem__write_object_end(idem__writer *writer) { close_with(writer, "}"); }
void idem__write_array(idem__writer *writer) { open_with(writer, "["); }
void idem__write_array_end(idem__writer *writer) { close_with(writer, "]"); }

void idem__write_key(idem__writer *writer, const char *key) {
  separate(writer);
  put(writer, "\"", 1);
  put(writer, key, strlen(key));
  put(writer, "\":", 2);
  writer->comma = false;
}

void idem__write_raw(idem__writer *writer, const char *json, size_t len) {
  separate(writer);
  put(writer, json, len);
  writer->comma = true;
}

void idem__write_lead(idem__writer *writer, const char *json, size_t len) {
  separate(writer);
  put(writer, json, len);
  writer->comma = false;
}

void idem__write_string(idem__writer *writer, const char *text, size_t len) {
  separate(writer);
  if (writer->status == IDEM_OK) writer->status = idem_text_json_string(writer->out, text, len);
  writer->comma = true;
}

void idem__write_text(idem__writer *writer, const char *text) {
  idem__write_string(writer, text, strlen(text));
}

void idem__write_int(idem__writer *writer, int64_t number) {
  separate(writer);
  if (writer->status == IDEM_OK) {
    writer->status = idem_buf_printf(writer->out, "%lld", (long long)number);
  }
  writer->comma = true;
}

/* 17 digits bring every double back; integers are written as such. */
void idem__write_double(idem__writer *writer, double number) {
  if (!isfinite(number)) {
    if (writer->status == IDEM_OK) writer->status = IDEM_E_INVAL;
    return;
  }
  if (number == floor(number) && fabs(number) < 9007199254740992.0) {
    idem__write_int(writer, (int64_t)number);
    return;
  }
  separate(writer);
  if (writer->status == IDEM_OK) writer->status = idem_buf_printf(writer->out, "%.17g", number);
  writer->comma = true;
}

void idem__write_bool(idem__writer *writer, bool value) {
  if (value)
    idem__write_raw(writer, "true", 4);
  else
    idem__write_raw(writer, "false", 5);
}

void idem__write_value(idem__writer *writer, const yyjson_val *val) {
  separate(writer);
  if (writer->status == IDEM_OK) writer->status = idem__json_put(writer->out, val);
  writer->comma = true;
}

void idem__write_name(idem__writer *writer, const yyjson_val *name) {
  idem__write_value(writer, name);
  put(writer, ":", 1);
  writer->comma = false;
}

void idem__write_mutable(idem__writer *writer, const yyjson_mut_val *val) {
  separate(writer);
  if (writer->status == IDEM_OK) writer->status = idem__json_put_mut(writer->out, val);
  writer->comma = true;
}

void idem__write_member_text(idem__writer *writer, const char *key, const char *text) {
  if (!text) return;
  idem__write_key(writer, key);
  idem__write_text(writer, text);
}

void idem__write_member_raw(idem__writer *writer, const char *key, const char *json) {
  if (!json) return;
  idem__write_key(writer, key);
  idem__write_raw(writer, json, strlen(json));
}

void idem__write_member_value(idem__writer *writer, const char *key, const yyjson_val *val) {
  if (!val) return;
  idem__write_key(writer, key);
  idem__write_value(writer, val);
}

void idem__write_member_int(idem__writer *writer, const char *key, int64_t number) {
  idem__write_key(writer, key);
  idem__write_int(writer, number);
}

void idem__write_member_bool(idem__writer *writer, const char *key, bool value) {
  idem__write_key(writer, key);
  idem__write_bool(writer, value);
}
