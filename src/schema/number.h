/* number.h - JSON numbers as exact decimals.
 * A number is an int64, a 64-bit mantissa with a power of ten, or the digits of its text; each
 * value has one form only, so numbers of different forms are different numbers. */
#ifndef IDEM_SCHEMA_NUMBER_H
#define IDEM_SCHEMA_NUMBER_H

#include "../base/base.h"

#include <yyjson.h>

typedef enum number_form { NUMBER_BAD, NUMBER_INTEGER, NUMBER_DECIMAL, NUMBER_LONG } number_form;

typedef struct number {
  uint8_t form;
  bool negative;
  int64_t integer;   /* INTEGER */
  uint64_t mantissa; /* DECIMAL: not divisible by ten */
  int64_t exponent;  /* DECIMAL, LONG: times ten to this */
  const char *text;  /* LONG: first to last nonzero digit, perhaps with a '.' inside; borrowed */
  size_t text_len;
  uint64_t digits; /* LONG: how many digits the text has */
} number;

/* Reads JSON number text; BAD when it is none. Borrows `text`. */
number idem__number_parse(const char *text, size_t len);
/* Reads any yyjson number, raw ones included; BAD for other values. */
number idem__number_of(const yyjson_val *value);
bool idem__number_is_integer(const number *n);
int idem__number_compare(const number *a, const number *b); /* <0, 0, >0 */
bool idem__number_equal(const number *a, const number *b);
void idem__number_hash(idem__hasher *hasher, const number *n);
/* What the next function costs, in steps of a validation. */
uint64_t idem__number_multiple_steps(const number *n, const number *divisor);
/* Whether `n` is a multiple of `divisor` (positive). Sets *limit when the work would be too much.
 */
bool idem__number_multiple(const number *n, const number *divisor, bool *limit);
/* Writes the number as plain text, at most `size` bytes with the NUL. */
void idem__number_print(const number *n, char *out, size_t size);

/* The whole value of an integer that fits, for counts such as minLength. */
static inline bool idem__number_to_count(const number *n, uint64_t *out) {
  if (n->form != NUMBER_INTEGER || n->integer < 0) return false;
  *out = (uint64_t)n->integer;
  return true;
}

#endif
