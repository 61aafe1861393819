/* number.c - exact JSON numbers: parsing, order, equality, divisibility.
 * A double stands for the shortest decimal that reads back as it (what people wrote, in practice),
 * so 0.0075 is a multiple of 0.0001. See docs/internals/schema.md. */
#include "number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hash.h"

/* Exponents beyond this saturate: no text we accept is long enough to reach back from there. */
#define EXPONENT_MAX ((int64_t)1 << 60)
/* Divisors with more digits than a uint64 holds are divided digit by digit, up to this many. */
#define LONG_DIVISOR_DIGITS 256
#define LONG_DIVISION_WORK 4000000

/* The parts of a number's text: where its digits are and where its point is. */
typedef struct spelling {
  const char *first, *last; /* first and last nonzero digit; first NULL for zero */
  const char *point;        /* where the fraction begins (the '.'), or the end of the integer */
  int64_t exponent;
  bool negative;
} spelling;

static bool read_digits(const char **at, const char *end, spelling *s) {
  const char *start = *at;
  while (*at < end && idem__is_digit(**at)) {
    if (**at != '0') {
      if (!s->first) s->first = *at;
      s->last = *at;
    }
    ++*at;
  }
  return *at > start;
}

static bool read_exponent(const char **at, const char *end, spelling *s) {
  ++*at;
  bool negative = *at < end && **at == '-';
  if (*at < end && (**at == '-' || **at == '+')) ++*at;
  const char *start = *at;
  int64_t value = 0;
  for (; *at < end && idem__is_digit(**at); ++*at)
    if (value < EXPONENT_MAX / 16) value = value * 10 + (**at - '0');
  s->exponent = negative ? -value : value;
  return *at > start;
}

static bool read_spelling(const char *text, size_t len, spelling *s) {
  const char *at = text, *end = text + len;
  s->negative = at < end && *at == '-';
  if (s->negative) at++;
  if (!read_digits(&at, end, s)) return false;
  s->point = at;
  if (at < end && *at == '.') {
    at++;
    if (!read_digits(&at, end, s)) return false;
  }
  if (at < end && (*at == 'e' || *at == 'E'))
    if (!read_exponent(&at, end, s)) return false;
  return at == end;
}

static number integer_number(int64_t value) {
  return (number){.form = NUMBER_INTEGER, .negative = value < 0, .integer = value};
}

/* Gives a mantissa and exponent their one form: INTEGER when it fits an int64. */
static number normal_number(bool negative, uint64_t mantissa, int64_t exponent) {
  if (mantissa == 0) return integer_number(0);
  while (mantissa % 10 == 0) {
    mantissa /= 10;
    exponent++;
  }
  if (exponent >= 0 && exponent < 19) {
    uint64_t whole = mantissa;
    int64_t left = exponent;
    while (left > 0 && whole <= (uint64_t)INT64_MAX / 10) {
      whole *= 10;
      left--;
    }
    if (left == 0 && whole <= (uint64_t)INT64_MAX)
      return integer_number(negative ? -(int64_t)whole : (int64_t)whole);
    if (left == 0 && negative && whole == (uint64_t)INT64_MAX + 1) return integer_number(INT64_MIN);
  }
  return (number){
      .form = NUMBER_DECIMAL, .negative = negative, .mantissa = mantissa, .exponent = exponent};
}

/* The power of ten of the last nonzero digit. */
static int64_t last_digit_power(const spelling *s) {
  if (s->last < s->point) return s->point - s->last - 1;
  return -(s->last - s->point);
}

/* The common case: a few digits, perhaps with a point. BAD: let the long way decide. */
static number parse_short(const char *text, size_t len) {
  size_t at = text[0] == '-', first = at, point = 0;
  uint64_t mantissa = 0;
  for (; at < len; at++) {
    if (idem__is_digit(text[at]))
      mantissa = mantissa * 10 + (uint64_t)(text[at] - '0');
    else if (text[at] == '.' && !point && at > first)
      point = at;
    else
      return (number){.form = NUMBER_BAD};
  }
  if (at == first || point + 1 == len) return (number){.form = NUMBER_BAD};
  if (point) return normal_number(text[0] == '-', mantissa, -(int64_t)(len - 1 - point));
  return integer_number(text[0] == '-' ? -(int64_t)mantissa : (int64_t)mantissa);
}

number idem__number_parse(const char *text, size_t len) {
  if (len > 0 && len < 19) {
    number n = parse_short(text, len);
    if (n.form != NUMBER_BAD) return n;
  }
  spelling s = {0};
  if (!read_spelling(text, len, &s)) return (number){.form = NUMBER_BAD};
  if (!s.first) return integer_number(0);
  int64_t exponent = s.exponent + last_digit_power(&s);
  uint64_t mantissa = 0, digits = 0;
  bool fits = true;
  for (const char *p = s.first; p <= s.last; p++) {
    if (*p == '.') continue;
    digits++;
    uint64_t digit = (uint64_t)(*p - '0');
    if (mantissa > (UINT64_MAX - digit) / 10) fits = false;
    mantissa = mantissa * 10 + digit;
  }
  if (fits) return normal_number(s.negative, mantissa, exponent);
  return (number){.form = NUMBER_LONG,
                  .negative = s.negative,
                  .exponent = exponent,
                  .text = s.first,
                  .text_len = (size_t)(s.last - s.first) + 1,
                  .digits = digits};
}

/* A double's shortest spelling has at most 17 digits, so it never needs the LONG form and the text
 * may live on the stack. yyjson's writer finds it, whatever the locale. */
static number real_number(const yyjson_val *value) {
  double real = value->uni.f64;
  if (!isfinite(real)) return (number){.form = NUMBER_BAD};
  if (real >= -9.2233720368547e18 && real <= 9.2233720368547e18 && (double)(int64_t)real == real)
    return integer_number((int64_t)real);
  char memory[512];
  yyjson_alc pool;
  size_t len = 0;
  yyjson_alc_pool_init(&pool, memory, sizeof memory);
  const char *text = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, &pool, &len, NULL);
  return text ? idem__number_parse(text, len) : (number){.form = NUMBER_BAD};
}

number idem__number_of(const yyjson_val *value) {
  switch (value->tag & YYJSON_TAG_MASK) {
  case YYJSON_TYPE_NUM | YYJSON_SUBTYPE_UINT:
    if (value->uni.u64 > (uint64_t)INT64_MAX) return normal_number(false, value->uni.u64, 0);
    return integer_number((int64_t)value->uni.u64);
  case YYJSON_TYPE_NUM | YYJSON_SUBTYPE_SINT: return integer_number(value->uni.i64);
  case YYJSON_TYPE_NUM | YYJSON_SUBTYPE_REAL: return real_number(value);
  case YYJSON_TYPE_RAW:
    return idem__number_parse(value->uni.str, (size_t)(value->tag >> YYJSON_TAG_BIT));
  default: return (number){.form = NUMBER_BAD};
  }
}

bool idem__number_is_integer(const number *n) {
  return n->form == NUMBER_INTEGER || (n->form != NUMBER_BAD && n->exponent >= 0);
}

/* -------------------------------------------------------- order, equality */

/* A walk over the significant digits of a magnitude, most significant first. */
typedef struct digit_walk {
  char own[24];
  const char *at, *end;
  int64_t magnitude; /* position of the first digit: value is 0.ddd times ten to this */
} digit_walk;

static void walk_start(digit_walk *w, const number *n) {
  if (n->form == NUMBER_LONG) {
    w->at = n->text;
    w->end = n->text + n->text_len;
    w->magnitude = n->exponent + (int64_t)n->digits;
    return;
  }
  uint64_t value = n->mantissa;
  int64_t exponent = n->exponent;
  if (n->form == NUMBER_INTEGER) {
    value = n->integer < 0 ? 0 - (uint64_t)n->integer : (uint64_t)n->integer;
    exponent = 0;
  }
  char *p = w->own + sizeof w->own;
  w->end = p;
  for (; value; value /= 10) *--p = (char)('0' + value % 10);
  w->at = p;
  w->magnitude = exponent + (w->end - p);
}

static int walk_next(digit_walk *w) {
  if (w->at < w->end && *w->at == '.') w->at++;
  return w->at < w->end ? *w->at++ - '0' : -1;
}

__extension__ typedef unsigned __int128 wide;

static uint64_t magnitude_of(const number *n) {
  if (n->form != NUMBER_INTEGER) return n->mantissa;
  return n->integer < 0 ? 0 - (uint64_t)n->integer : (uint64_t)n->integer;
}

/* Two mantissas brought to one exponent, where 128 bits are enough; false when they are not. */
static bool compare_aligned(const number *a, const number *b, int *order) {
  static const uint64_t powers[] = {1,
                                    10,
                                    100,
                                    1000,
                                    10000,
                                    100000,
                                    1000000,
                                    10000000,
                                    100000000,
                                    1000000000,
                                    10000000000,
                                    100000000000,
                                    1000000000000,
                                    10000000000000,
                                    100000000000000,
                                    1000000000000000,
                                    10000000000000000,
                                    100000000000000000,
                                    1000000000000000000};
  if (a->form == NUMBER_LONG || b->form == NUMBER_LONG) return false;
  int64_t gap = a->exponent - b->exponent; /* INTEGER has exponent 0 */
  if (gap < -18 || gap > 18) return false;
  wide x = (wide)magnitude_of(a) * (gap > 0 ? powers[gap] : 1);
  wide y = (wide)magnitude_of(b) * (gap < 0 ? powers[-gap] : 1);
  *order = (x > y) - (x < y);
  return true;
}

static int compare_magnitude(const number *a, const number *b) {
  int order;
  if (compare_aligned(a, b, &order)) return order;
  digit_walk x, y;
  walk_start(&x, a);
  walk_start(&y, b);
  if (x.magnitude != y.magnitude) return x.magnitude < y.magnitude ? -1 : 1;
  for (;;) {
    int p = walk_next(&x), q = walk_next(&y);
    if (p < 0 && q < 0) return 0;
    if (p < 0) p = 0; /* 12 against 12.0: what is missing is zero */
    if (q < 0) q = 0;
    if (p != q) return p < q ? -1 : 1;
  }
}

static bool is_zero(const number *n) { return n->form == NUMBER_INTEGER && n->integer == 0; }

int idem__number_compare(const number *a, const number *b) {
  if (a->form == NUMBER_INTEGER && b->form == NUMBER_INTEGER)
    return (a->integer > b->integer) - (a->integer < b->integer);
  if (is_zero(a)) return b->negative ? 1 : -1;
  if (is_zero(b)) return a->negative ? -1 : 1;
  if (a->negative != b->negative) return a->negative ? -1 : 1;
  int order = compare_magnitude(a, b);
  return a->negative ? -order : order;
}

bool idem__number_equal(const number *a, const number *b) {
  if (a->form != b->form) return false;
  if (a->form == NUMBER_INTEGER) return a->integer == b->integer;
  if (a->form == NUMBER_DECIMAL)
    return a->mantissa == b->mantissa && a->exponent == b->exponent && a->negative == b->negative;
  return a->form == NUMBER_LONG && idem__number_compare(a, b) == 0;
}

/* Sixteen digits make a word; how many there are tells a last word from a part of one. */
static void hash_digits(idem__hasher *hasher, const number *n) {
  digit_walk w;
  uint64_t word = 0, count = 0;
  idem__hash_word(hasher, n->digits);
  walk_start(&w, n);
  for (int digit = walk_next(&w); digit >= 0; digit = walk_next(&w)) {
    word = word << 4 | (uint64_t)digit;
    if (++count % 16 == 0) idem__hash_word(hasher, word);
  }
  idem__hash_word(hasher, word);
}

void idem__number_hash(idem__hasher *hasher, const number *n) {
  idem__hash_word(hasher, (uint64_t)n->form << 1 | n->negative);
  if (n->form == NUMBER_INTEGER) {
    idem__hash_word(hasher, (uint64_t)n->integer);
    return;
  }
  idem__hash_word(hasher, (uint64_t)n->exponent);
  if (n->form == NUMBER_LONG)
    hash_digits(hasher, n);
  else
    idem__hash_word(hasher, n->mantissa);
}

/* ------------------------------------------------------------ divisibility */

static uint64_t multiply_modulo(uint64_t a, uint64_t b, uint64_t m) {
  return (uint64_t)((wide)a * b % m);
}

static uint64_t power_of_ten_modulo(uint64_t exponent, uint64_t m) {
  uint64_t result = 1 % m, base = 10 % m;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = multiply_modulo(result, base, m);
    base = multiply_modulo(base, base, m);
  }
  return result;
}

static uint64_t digits_modulo(const number *n, uint64_t m) {
  digit_walk w;
  walk_start(&w, n);
  uint64_t rest = 0;
  for (int digit = walk_next(&w); digit >= 0; digit = walk_next(&w))
    rest = (uint64_t)(((wide)rest * 10 + (unsigned)digit) % m);
  return rest;
}

/* A remainder of up to LONG_DIVISOR_DIGITS decimal digits, most significant first. */
typedef struct long_rest {
  uint8_t digit[LONG_DIVISOR_DIGITS + 1];
} long_rest;

static bool rest_at_least(const long_rest *rest, const uint8_t *divisor, size_t len) {
  return memcmp(rest->digit, divisor, len) >= 0;
}

static void rest_subtract(long_rest *rest, const uint8_t *divisor, size_t len) {
  int borrow = 0;
  for (size_t i = len; i-- > 0;) {
    int digit = rest->digit[i] - divisor[i] - borrow;
    borrow = digit < 0;
    rest->digit[i] = (uint8_t)(digit + borrow * 10);
  }
}

/* rest = (rest * 10 + digit) mod divisor. Both have one leading zero, so the shift cannot spill. */
static void rest_push(long_rest *rest, int digit, const uint8_t *divisor, size_t len) {
  memmove(rest->digit, rest->digit + 1, len - 1);
  rest->digit[len - 1] = (uint8_t)digit;
  while (rest_at_least(rest, divisor, len)) rest_subtract(rest, divisor, len);
}

static bool rest_is_zero(const long_rest *rest, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (rest->digit[i]) return false;
  return true;
}

static bool long_multiple(const number *n, const number *divisor, uint64_t shift, bool *limit) {
  uint8_t by[LONG_DIVISOR_DIGITS + 1] = {0};
  long_rest rest = {{0}};
  size_t len = (size_t)divisor->digits + 1;
  uint64_t count = n->form == NUMBER_LONG ? n->digits : 20;
  if (divisor->digits > LONG_DIVISOR_DIGITS || shift > LONG_DIVISION_WORK ||
      (count + shift) > LONG_DIVISION_WORK / len) {
    *limit = true;
    return false;
  }
  digit_walk w;
  walk_start(&w, divisor);
  for (size_t i = 1; i < len; i++) by[i] = (uint8_t)walk_next(&w);
  walk_start(&w, n);
  for (int digit = walk_next(&w); digit >= 0; digit = walk_next(&w))
    rest_push(&rest, digit, by, len);
  for (uint64_t i = 0; i < shift; i++) rest_push(&rest, 0, by, len);
  return rest_is_zero(&rest, len);
}

/* Long division is up to nine subtractions a digit, each as long as the divisor; the rest is one
 * division of 128 bits a digit. */
uint64_t idem__number_multiple_steps(const number *n, const number *divisor) {
  uint64_t digits = n->form == NUMBER_LONG ? n->digits : 0;
  if (divisor->form != NUMBER_LONG) return digits / 4;
  if (divisor->digits > LONG_DIVISOR_DIGITS) return 0; /* nothing is done */
  int64_t shift = (n->form == NUMBER_INTEGER ? 0 : n->exponent) - divisor->exponent;
  if (shift < 0 || shift > LONG_DIVISION_WORK) return 0;
  return (digits + 20 + (uint64_t)shift) * (divisor->digits + 1) / 8;
}

/* n = V * 10^f, divisor = m * 10^e with neither V nor m divisible by ten (or f, e zero). When
 * f >= e, m must divide V * 10^(f-e). Otherwise m * 10^(e-f) must divide V, which needs V's own
 * trailing zeros: only INTEGER forms have them, so those are compared by stripping first. */
bool idem__number_multiple(const number *n, const number *divisor, bool *limit) {
  if (is_zero(n)) return true;
  if (n->form == NUMBER_INTEGER && divisor->form == NUMBER_INTEGER) {
    if (divisor->integer == -1 || divisor->integer == 0) return divisor->integer == -1;
    return n->integer % divisor->integer == 0;
  }
  int64_t f = n->form == NUMBER_INTEGER ? 0 : n->exponent;
  int64_t e = divisor->form == NUMBER_INTEGER ? 0 : divisor->exponent;
  uint64_t m = divisor->form == NUMBER_INTEGER ? (uint64_t)divisor->integer : divisor->mantissa;
  if (n->form == NUMBER_INTEGER && e > 0) return false; /* then the divisor exceeds an int64 */
  if (divisor->form == NUMBER_INTEGER && f < 0) return false;
  if (f < e) return false;
  uint64_t shift = (uint64_t)(f - e);
  if (divisor->form == NUMBER_LONG) return long_multiple(n, divisor, shift, limit);
  return multiply_modulo(digits_modulo(n, m), power_of_ten_modulo(shift, m), m) == 0;
}

void idem__number_print(const number *n, char *out, size_t size) {
  if (n->form == NUMBER_INTEGER) {
    snprintf(out, size, "%lld", (long long)n->integer);
  } else if (n->form == NUMBER_LONG) {
    snprintf(out, size, "%sabout 1e%lld", n->negative ? "-" : "",
             (long long)(n->exponent + (int64_t)n->digits - 1));
  } else if (n->exponent < 0 && n->exponent > -18) {
    uint64_t unit = 1;
    for (int64_t i = n->exponent; i < 0; i++) unit *= 10;
    snprintf(out, size, "%s%llu.%0*llu", n->negative ? "-" : "",
             (unsigned long long)(n->mantissa / unit), (int)-n->exponent,
             (unsigned long long)(n->mantissa % unit));
  } else {
    snprintf(out, size, "%s%llue%lld", n->negative ? "-" : "", (unsigned long long)n->mantissa,
             (long long)n->exponent);
  }
}
