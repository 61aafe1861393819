/* idem/json.h - walking through the members of an object that may be missing, as parameters often are.
 * yyjson's own loop adds to a null pointer where there is no object: harmless on the machines we know,
 * undefined in C. tests/layering/check keeps it out of the tree. */
#ifndef IDEM_JSON_H
#define IDEM_JSON_H

#include <yyjson.h>

/* Each member of `object` in turn; no turn where it is NULL, empty or no object. `object` is looked at
 * twice, so let it be a name. */
#define idem_each_member(object, index, count, key, value)                                         \
  for ((index) = 0, (count) = yyjson_obj_size(object),                                             \
      (key) = (count) ? unsafe_yyjson_get_first(object) : NULL,                                    \
      (value) = (key) ? (key) + 1 : NULL;                                                          \
       (index) < (count); (index)++, (key) = unsafe_yyjson_get_next(value), (value) = (key) + 1)

#endif
