/* format.h - one function per format; format.c has the table.
 * Each judges a whole string and never allocates, except `regex`, which compiles it. */
#ifndef IDEM_SCHEMA_FORMAT_H
#define IDEM_SCHEMA_FORMAT_H

#include "schema.h"

typedef bool (*format_fn)(const char *text, size_t len, format_env *env);

bool idem__format_date(const char *text, size_t len, format_env *env);
bool idem__format_time(const char *text, size_t len, format_env *env);
bool idem__format_date_time(const char *text, size_t len, format_env *env);
bool idem__format_duration(const char *text, size_t len, format_env *env);
bool idem__format_ipv4(const char *text, size_t len, format_env *env);
bool idem__format_ipv6(const char *text, size_t len, format_env *env);
bool idem__format_hostname(const char *text, size_t len, format_env *env);
bool idem__format_email(const char *text, size_t len, format_env *env);
bool idem__format_idn_email(const char *text, size_t len, format_env *env);
bool idem__format_uri(const char *text, size_t len, format_env *env);
bool idem__format_uri_reference(const char *text, size_t len, format_env *env);
bool idem__format_uri_template(const char *text, size_t len, format_env *env);
bool idem__format_json_pointer(const char *text, size_t len, format_env *env);
bool idem__format_relative_json_pointer(const char *text, size_t len, format_env *env);
bool idem__format_uuid(const char *text, size_t len, format_env *env);

/* An A-label's meaning checked by IDNA 2008 (RFC 5891, 5892); `label` includes "xn--". */
bool idem__idna_label(const char *label, size_t len, format_env *env);

static inline bool idem__is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static inline bool idem__is_hex(char c) { return idem_hex_value(c) >= 0; }

#endif
