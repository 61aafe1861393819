/* format.c - the formats that can be asserted, by name.
 * A format that is not in the table is never asserted, as the specification asks. */
#include "format.h"

static bool check_regex(const char *text, size_t len, format_env *env) {
  bool valid = false;
  if (idem__regex_check(env->alloc, text, len, &valid) == IDEM_E_NOMEM) env->no_memory = true;
  return valid;
}

static const struct {
  const char *name;
  format_fn check;
  bool label;
} formats[] = {{"", NULL, false},
               {"date-time", idem__format_date_time, false},
               {"date", idem__format_date, false},
               {"time", idem__format_time, false},
               {"duration", idem__format_duration, false},
               {"email", idem__format_email, true},
               {"idn-email", idem__format_idn_email, true},
               {"hostname", idem__format_hostname, true},
               {"ipv4", idem__format_ipv4, false},
               {"ipv6", idem__format_ipv6, false},
               {"uri", idem__format_uri, false},
               {"uri-reference", idem__format_uri_reference, false},
               {"uri-template", idem__format_uri_template, false},
               {"json-pointer", idem__format_json_pointer, false},
               {"relative-json-pointer", idem__format_relative_json_pointer, false},
               {"uuid", idem__format_uuid, false},
               {"regex", check_regex, false}};

uint8_t idem__format_find(const char *name, size_t len) {
  for (size_t i = 1; i < sizeof formats / sizeof *formats; i++)
    if (strlen(formats[i].name) == len && memcmp(formats[i].name, name, len) == 0)
      return (uint8_t)i;
  return 0;
}

const char *idem__format_name(uint8_t format) { return formats[format].name; }
bool idem__format_wants_label(uint8_t format) { return formats[format].label; }

bool idem__format_check(uint8_t format, const char *text, size_t len, format_env *env) {
  return formats[format].check(text, len, env);
}

bool idem__format_uuid(const char *text, size_t len, format_env *env) {
  (void)env;
  if (len != 36) return false;
  for (size_t i = 0; i < len; i++) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !idem__is_hex(text[i])) return false;
  }
  return true;
}

bool idem__format_json_pointer(const char *text, size_t len, format_env *env) {
  (void)env;
  if (len && text[0] != '/') return false;
  for (size_t i = 0; i < len; i++)
    if (text[i] == '~' && (i + 1 == len || (text[i + 1] != '0' && text[i + 1] != '1')))
      return false;
  return true;
}

bool idem__format_relative_json_pointer(const char *text, size_t len, format_env *env) {
  size_t digits = 0;
  while (digits < len && idem__is_digit(text[digits])) digits++;
  if (digits == 0 || (digits > 1 && text[0] == '0')) return false;
  if (digits + 1 == len && text[digits] == '#') return true;
  return idem__format_json_pointer(text + digits, len - digits, env);
}
