/* build.h - writing JSON by hand into a buffer, with commas and errors taken care of.
 * The first failure sticks in `status`; everything after it does nothing. */
#ifndef IDEM_JSON_BUILD_H
#define IDEM_JSON_BUILD_H

#include "json.h"

typedef struct idem__writer {
  idem_buf *out;
  idem_status status;
  bool comma; /* a value stands before: the next one needs a comma */
} idem__writer;

static inline idem__writer idem__writer_on(idem_buf *out) {
  return (idem__writer){.out = out, .status = IDEM_OK};
}

void idem__write_object(idem__writer *writer);     /* { */
void idem__write_object_end(idem__writer *writer); /* } */
void idem__write_array(idem__writer *writer);
void idem__write_array_end(idem__writer *writer);
void idem__write_key(idem__writer *writer, const char *key);         /* ours: not escaped */
void idem__write_name(idem__writer *writer, const yyjson_val *name); /* somebody's: escaped */
void idem__write_string(idem__writer *writer, const char *text, size_t len);
void idem__write_text(idem__writer *writer, const char *text); /* NUL-terminated */
void idem__write_int(idem__writer *writer, int64_t number);
void idem__write_double(idem__writer *writer, double number); /* NaN and infinity: INVAL */
void idem__write_bool(idem__writer *writer, bool value);
/* JSON that is known to be good: idem's own, a raw token, or text checked before. */
void idem__write_raw(idem__writer *writer, const char *json, size_t len);
/* The same, for a piece that ends where a value must follow: {"type":"text","text": */
void idem__write_lead(idem__writer *writer, const char *json, size_t len);
#define idem__write_lead_text(writer, literal)                                                     \
  idem__write_lead((writer), "" literal, sizeof(literal) - 1)
void idem__write_value(idem__writer *writer, const yyjson_val *val);
void idem__write_mutable(idem__writer *writer, const yyjson_mut_val *val);

/* "key": text; nothing for NULL text. */
void idem__write_member_text(idem__writer *writer, const char *key, const char *text);
/* "key": json; nothing for NULL. */
void idem__write_member_raw(idem__writer *writer, const char *key, const char *json);
void idem__write_member_value(idem__writer *writer, const char *key, const yyjson_val *val);
void idem__write_member_int(idem__writer *writer, const char *key, int64_t number);
void idem__write_member_bool(idem__writer *writer, const char *key, bool value);

#endif
