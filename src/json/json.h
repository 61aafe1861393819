/* json.h - the thin layer over yyjson: one message's memory, reading with bounds, the raw token of
 * a member, writing straight into an output buffer. See docs/internals/json.md. */
#ifndef IDEM_JSON_PRIVATE_H
#define IDEM_JSON_PRIVATE_H

#include "../base/base.h"
#include <idem/json.h>
#include <yyjson.h>

/* --------------------------------------------------------------- arena */

/* The memory of one message: a lent block that is bumped through, then single large pieces. All of
 * it is given back at once. Never more than `limit` bytes. */
typedef struct idem__arena_piece idem__arena_piece;
typedef struct idem__arena {
  const idem_alloc *alloc;
  char *block;
  size_t cap;
  size_t used;
  size_t last; /* offset of the newest piece in the block: it alone can grow in place */
  idem__arena_piece *pieces;
  size_t piece_bytes;
  size_t limit;
  bool over_limit; /* an allocation was refused because of `limit` */
} idem__arena;

void idem__arena_init(idem__arena *arena, const idem_alloc *alloc, char *block, size_t cap,
                      size_t limit);
/* Frees the pieces; the block is the lender's. */
void idem__arena_deinit(idem__arena *arena);
void *idem__arena_malloc(idem__arena *arena, size_t size);
yyjson_alc idem__arena_alc(idem__arena *arena);
/* The same for what lives longer or shorter than a message. yyjson never gets NULL: that would be memory that no
 * bound, no count and no test of ours sees. */
static inline yyjson_alc idem__json_alc(const idem_alloc *alloc) {
  return (yyjson_alc){alloc->malloc, alloc->realloc, alloc->free, alloc->ctx};
}

/* --------------------------------------------------------------- reading */

/* NULL: not JSON, or (arena->over_limit) more memory than allowed, or (*status NOMEM) none left.
 * Numbers beyond 64 bits and doubles that would lose digits stay raw. */
yyjson_doc *idem__json_read(const char *text, size_t len, idem__arena *arena, idem_status *status);
/* What a read of `len` bytes takes at first, so that a block can be chosen. */
size_t idem__json_read_estimate(size_t len);
/* ... and at most, with the old values still there while they are moved to more room. */
size_t idem__json_read_bound(size_t len);
#define IDEM__JSON_DEPTH_MAX 4096 /* the most a limit can be set to */
/* True when no value nests deeper than `limit`. Linear in the number of values. */
bool idem__json_depth_within(const yyjson_doc *doc, size_t text_len, size_t limit);
/* The bytes of the value that follows `key` in the text the document was read from. Relies on
 * yyjson leaving strings at their source offset: see idem__json_self_test. */
void idem__json_raw_after(const yyjson_doc *doc, const char *text, size_t text_len,
                          const yyjson_val *key, const char **raw, size_t *raw_len);
/* Objects from `val` on down keep the last one of members that share a name, at its place; the others leave the document, so
 * that every reader sees the same. In place, linear; values behind `val` may move. NOMEM leaves a document that is of no more use. */
idem_status idem__json_keep_last(yyjson_doc *doc, yyjson_val *val);
/* The same in two steps, for several values of one document: EXISTS when something was marked, which nobody may read before it
 * is dropped. A document nests within IDEM__JSON_DEPTH_MAX. */
idem_status idem__json_mark_repeated(const yyjson_doc *doc, yyjson_val *val);
void idem__json_drop_marked(yyjson_doc *doc);
/* The same for all of a document, LIMIT where it nests deeper than limit. The objects of the outer levels may repeat
 * members: they are not looked at. */
idem_status idem__json_look_through(const yyjson_doc *doc, size_t outer, size_t limit);
/* Checks what raw_after relies on; false means this yyjson cannot be used. Cheap. */
bool idem__json_self_test(void);

/* "null", "boolean", "number", "string", "array", "object"; NULL gives "nothing". */
const char *idem__json_type_name(yyjson_val *val);
/* Raw numbers included. */
bool idem__json_is_number(yyjson_val *val);
bool idem__json_get_double(yyjson_val *val, double *out);
/* True for a number whose value is an integer within int64, however it is written. */
bool idem__json_get_int(yyjson_val *val, int64_t *out);
/* A number as JSON spells it, NUL-terminated, as a value; false: it is none. */
bool idem__json_number_of(const char *text, yyjson_val *out);

/* A value and all below it in one piece of so many bytes, texts included: for what is kept long. The memory is aligned as a value is. */
size_t idem__json_copy_size(yyjson_val *val);
void idem__json_copy(yyjson_val *val, yyjson_val *into);

/* --------------------------------------------------------------- writing */

/* Public by now: see idem/json.h. */
#define idem__json_put idem_json_put
/* The same by yyjson alone: for what is large or needs escapes. */
idem_status idem__json_put_any(idem_buf *out, const yyjson_val *val);
idem_status idem__json_put_mut(idem_buf *out, const yyjson_mut_val *val);
/* Reads foreign JSON text, one value, whose numbers stay raw. NULL: see *status. */
yyjson_doc *idem__json_read_text(const char *text, size_t len, size_t max_depth,
                                 const yyjson_alc *alc, idem_status *status);
/* Checks foreign JSON text and appends it compact, numbers spelled as they were; one value. */
idem_status idem__json_put_text(idem_buf *out, const char *text, size_t len, size_t max_depth);

#endif
