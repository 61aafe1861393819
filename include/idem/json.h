/* idem/json.h - what yyjson leaves to be wished for: walking through the members of an object that may be missing,
 * and writing a value into a bounded buffer. */
#ifndef IDEM_JSON_H
#define IDEM_JSON_H

#include <idem/text.h>
#include <yyjson.h>

/* yyjson's own loop adds to a null pointer where there is no object: harmless on the machines we know,
 * undefined in C. tests/layering/check keeps it out of the tree. */

/* Each member of `object` in turn; no turn where it is NULL, empty or no object. `object` is looked at
 * twice, so let it be a name. */
#define idem_each_member(object, index, count, key, value)                                         \
  for ((index) = 0, (count) = yyjson_obj_size(object),                                             \
      (key) = (count) ? unsafe_yyjson_get_first(object) : NULL,                                    \
      (value) = (key) ? (key) + 1 : NULL;                                                          \
       (index) < (count); (index)++, (key) = unsafe_yyjson_get_next(value), (value) = (key) + 1)

#ifdef __cplusplus
extern "C" {
#endif

/* Appends a value as compact JSON. INVAL: it holds bad UTF-8, NaN, infinity or a raw newline; LIMIT: it does
 * not fit; NOMEM. The buffer is then as it was. */
IDEM_API idem_status idem_json_put(idem_buf *out, const yyjson_val *value);

#ifdef __cplusplus
}
#endif
#endif
