/* message_shape.h - what every JSON-RPC 2.0 message looks like, whoever sent it. */
#ifndef IDEM_TEST_MESSAGE_SHAPE_H
#define IDEM_TEST_MESSAGE_SHAPE_H

#include <stdbool.h>
#include <yyjson.h>

/* The version, and a method or exactly one of result and error. */
static inline bool message_is_well_formed(yyjson_val *message) {
  bool result = yyjson_obj_get(message, "result") != NULL;
  bool error = yyjson_obj_get(message, "error") != NULL;
  if (!yyjson_equals_str(yyjson_obj_get(message, "jsonrpc"), "2.0")) return false;
  if (yyjson_obj_get(message, "method")) return !result && !error;
  return result != error;
}

/* Is it good, or a batch of at least one that are all good? */
static inline bool message_or_batch(yyjson_val *root, bool (*good)(yyjson_val *message)) {
  size_t i, count;
  yyjson_val *each;
  if (!yyjson_is_arr(root)) return root && good(root);
  yyjson_arr_foreach(root, i, count, each) {
    if (!good(each)) return false;
  }
  return count > 0;
}

#endif
