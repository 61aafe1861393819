/* header.c - how headers that mirror the message are spelled, and whether they agree with it. */
#include "header.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ spelling */

static const char prefix[] = "=?base64?";

static bool is_wrapped(const char *value, size_t len) {
  size_t lead = sizeof prefix - 1;
  return len >= lead + 2 && memcmp(value, prefix, lead) == 0 &&
         memcmp(value + len - 2, "?=", 2) == 0;
}

bool idem__header_is_text(const char *value, size_t len) {
  for (size_t i = 0; i < len; i++) {
    if ((value[i] < ' ' || value[i] > '~') && value[i] != '\t') return false;
  }
  return true;
}

idem_status idem__header_decode(idem_buf *out, const char *value, size_t len) {
  size_t lead = sizeof prefix - 1;
  if (!idem__header_is_text(value, len)) return IDEM_E_INVAL;
  if (!is_wrapped(value, len)) return idem_buf_put(out, value, len);
  idem_status status = idem_base64_decode(out, value + lead, len - lead - 2, IDEM_BASE64_STANDARD);
  return status == IDEM_OK && !idem_utf8_valid(out->data, out->len) ? IDEM_E_INVAL : status;
}

static bool is_plain(const char *text, size_t len) {
  if (len && (text[0] == ' ' || text[len - 1] == ' ')) return false;
  for (size_t i = 0; i < len; i++) {
    if (text[i] < ' ' || text[i] > '~') return false;
  }
  return !is_wrapped(text, len);
}

idem_status idem__header_encode(idem_buf *out, const char *text, size_t len) {
  size_t before = out->len;
  if (is_plain(text, len)) return idem_buf_put(out, text, len);
  idem_status status = idem_buf_put(out, prefix, sizeof prefix - 1);
  if (status == IDEM_OK) status = idem_base64_encode(out, text, len, IDEM_BASE64_STANDARD);
  if (status == IDEM_OK) status = idem_buf_puts(out, "?=");
  if (status != IDEM_OK) out->len = before;
  return status;
}

/* ---------------------------------------------------------------- arguments */

yyjson_val *idem__header_argument(const idem__header_rule *rule, yyjson_val *arguments) {
  yyjson_val *val = arguments;
  for (char *const *path = rule->path; *path && val; path++)
    val = yyjson_is_obj(val) ? yyjson_obj_get(val, *path) : NULL;
  return yyjson_is_null(val) ? NULL : val;
}

/* Integers compare by value: 42.0 is 42. */
static bool same_integer(yyjson_val *val, const char *text, size_t len) {
  const int64_t most = 9007199254740991;
  int64_t number;
  char copy[32], *end;
  if (!idem__json_get_int(val, &number) || number > most || number < -most) return false;
  if (len == 0 || len >= sizeof copy) return false;
  memcpy(copy, text, len);
  copy[len] = '\0';
  if (strspn(copy, "-.0123456789") != len) return false; /* strtod forgives more */
  double given = strtod(copy, &end);
  return *end == '\0' && given == (double)number;
}

bool idem__header_agrees(const idem__header_rule *rule, yyjson_val *val, const char *text,
                         size_t len) {
  const char *data = len ? text : "";
  if (rule->type == 's') return yyjson_is_str(val) && yyjson_equals_strn(val, data, len);
  if (rule->type == 'i') return same_integer(val, text, len);
  const char *word = yyjson_is_true(val) ? "true" : "false";
  return yyjson_is_bool(val) && len == strlen(word) && memcmp(data, word, len) == 0;
}

idem_status idem__header_put_argument(idem_buf *out, const idem__header_rule *rule,
                                      yyjson_val *val) {
  const int64_t most = 9007199254740991;
  int64_t number;
  if (rule->type == 's' && yyjson_is_str(val))
    return idem__header_encode(out, yyjson_get_str(val), yyjson_get_len(val));
  if (rule->type == 'b' && yyjson_is_bool(val))
    return yyjson_is_true(val) ? idem_buf_puts(out, "true") : idem_buf_puts(out, "false");
  if (rule->type != 'i' || !idem__json_get_int(val, &number)) return IDEM_E_INVAL;
  if (number > most || number < -most) return IDEM_E_INVAL;
  return idem_buf_printf(out, "%lld", (long long)number);
}
