/* id.c - request ids: echoed as raw tokens, compared by value.
 * Strings compare by their decoded bytes, numbers by normalised decimal (1, 1.0 and 1e0 are equal)
 * without ever expanding an exponent; an exponent beyond int64 leaves the bytes to decide. */
#include "../json/build.h"
#include "inside.h"

#include <stdio.h>
#include <string.h>

/* A number taken apart: value = digits * 10^exponent, no zero at either end of digits. */
typedef struct decimal {
  bool negative;
  bool huge; /* the exponent does not fit: compare by bytes */
  bool tiny; /* huge, towards zero */
  int64_t exponent;
  size_t digits; /* how many significant digits */
  size_t first;  /* offset of the first significant digit in the token */
} decimal;

/* An exponent's digits; saturates just below the int64 range. */
static int64_t read_exponent(const char *at, const char *end, bool *huge) {
  bool negative = false;
  int64_t value = 0;
  if (at < end && (*at == '+' || *at == '-')) negative = *at++ == '-';
  for (; at < end; at++) {
    if (value > (INT64_MAX - 9) / 10 / 2)
      *huge = true;
    else
      value = value * 10 + (*at - '0');
  }
  return negative ? -value : value;
}

/* Counts digits between the first and the last that are not zero, over the decimal point. */
static void scan_mantissa(const char *raw, size_t len, size_t from, size_t *end, decimal *out) {
  size_t at = from, zeros = 0;
  int64_t fraction = 0;
  bool in_fraction = false;
  for (; at < len && (idem__is_digit(raw[at]) || raw[at] == '.'); at++) {
    if (raw[at] == '.') {
      in_fraction = true;
      continue;
    }
    fraction += in_fraction;
    if (raw[at] == '0') {
      zeros += out->digits > 0;
      continue;
    }
    if (!out->digits) out->first = at;
    out->digits += zeros + 1;
    zeros = 0;
  }
  out->exponent = (int64_t)zeros - fraction;
  *end = at;
}

static decimal take_apart(const char *raw, size_t len) {
  decimal out = {0};
  size_t at = 0;
  if (raw[0] == '-') {
    out.negative = true;
    at = 1;
  }
  scan_mantissa(raw, len, at, &at, &out);
  if (out.digits && at < len && (raw[at] == 'e' || raw[at] == 'E')) {
    int64_t exponent = read_exponent(raw + at + 1, raw + len, &out.huge);
    out.tiny = out.huge && raw[at + 1] == '-';
    out.exponent += exponent;
  }
  return out;
}

/* Copies the significant digits, without the point. */
static size_t copy_digits(const char *raw, const decimal *number, char *out) {
  size_t count = 0;
  for (size_t at = number->first; count < number->digits; at++) {
    if (idem__is_digit(raw[at])) out[count++] = raw[at];
  }
  return count;
}

static bool fits_int64(const decimal *number) {
  return number->exponent >= 0 && number->exponent <= 18 &&
         number->digits + (size_t)number->exponent <= 18;
}

static int64_t to_int64(const char *raw, const decimal *number) {
  char digits[18];
  int64_t value = 0;
  size_t count = copy_digits(raw, number, digits);
  for (size_t i = 0; i < count; i++) value = value * 10 + (digits[i] - '0');
  for (int64_t i = 0; i < number->exponent; i++) value *= 10;
  return number->negative ? -value : value;
}

IDEM__APART static void read_number(idem__id *id) {
  decimal number = take_apart(id->raw, id->raw_len);
  if (number.digits == 0) {
    id->kind = IDEM__ID_INTEGER;
    id->integer = 0;
  } else if (!number.huge && fits_int64(&number)) {
    id->kind = IDEM__ID_INTEGER;
    id->integer = to_int64(id->raw, &number);
  } else {
    id->kind = IDEM__ID_NUMBER;
    id->fraction = number.huge ? number.tiny : number.exponent < 0;
  }
}

/* yyjson's own integers need no second look, unless they have 19 digits: the table of the general
 * form ends at 18, and equal ids must take the same form. */
#define INTEGER_MAX 999999999999999999

IDEM__EARLY void idem__id_read(yyjson_val *val, const char *raw, size_t raw_len, idem__id *id) {
  id->kind = IDEM__ID_INVALID;
  id->fraction = false;
  id->raw = raw;
  id->raw_len = raw_len;
  if (unsafe_yyjson_is_uint(val) && val->uni.u64 <= INTEGER_MAX) {
    id->kind = IDEM__ID_INTEGER;
    id->integer = val->uni.i64;
  } else if (unsafe_yyjson_is_str(val)) {
    id->kind = IDEM__ID_STRING;
    id->text = val->uni.str;
    id->text_len = unsafe_yyjson_get_len(val);
  } else if (unsafe_yyjson_is_null(val)) {
    id->kind = IDEM__ID_NULL;
  } else if (idem__json_is_number(val)) {
    read_number(id);
  }
}

size_t idem__id_key_max(const idem__id *id) {
  switch (id->kind) {
  case IDEM__ID_INTEGER: return 1 + sizeof id->integer;
  case IDEM__ID_STRING: return 1 + id->text_len;
  case IDEM__ID_NUMBER: return 2 + id->raw_len + sizeof(int64_t);
  case IDEM__ID_ABSENT:
  case IDEM__ID_NULL:
  case IDEM__ID_INVALID: break;
  }
  return 0;
}

IDEM__APART static size_t number_key(const idem__id *id, char *out) {
  decimal number = take_apart(id->raw, id->raw_len);
  if (number.huge) {
    out[0] = 'b';
    memcpy(out + 1, id->raw, id->raw_len);
    return 1 + id->raw_len;
  }
  out[0] = 'n';
  out[1] = number.negative ? '-' : '+';
  memcpy(out + 2, &number.exponent, sizeof number.exponent);
  return 2 + sizeof number.exponent +
         copy_digits(id->raw, &number, out + 2 + sizeof number.exponent);
}

size_t idem__id_key(const idem__id *id, char *out) {
  if (id->kind == IDEM__ID_NUMBER) return number_key(id, out);
  if (id->kind == IDEM__ID_INTEGER) {
    out[0] = 'i';
    memcpy(out + 1, &id->integer, sizeof id->integer);
    return 1 + sizeof id->integer;
  }
  out[0] = 's';
  if (id->text_len) memcpy(out + 1, id->text, id->text_len);
  return 1 + id->text_len;
}

/* Digits and an exponent, as number_key wrote them; whole numbers as one writes them by hand. */
static void write_number(idem__writer *writer, const char *key, size_t len) {
  static const char zeros[] = "00000000000000000000";
  char power[24];
  int64_t exponent;
  const char *digits = key + 2 + sizeof exponent;
  memcpy(&exponent, key + 2, sizeof exponent);
  bool whole = exponent >= 0 && exponent < (int64_t)sizeof zeros;
  int power_len = whole ? snprintf(power, sizeof power, "%.*s", (int)exponent, zeros)
                        : snprintf(power, sizeof power, "e%lld", (long long)exponent);
  if (key[1] == '-') idem__write_lead_text(writer, "-");
  idem__write_lead(writer, digits, len - (size_t)(digits - key));
  idem__write_raw(writer, power, (size_t)power_len);
}

void idem__id_key_write(struct idem__writer *writer, const char *key, size_t len) {
  int64_t integer;
  switch (key[0]) {
  case 'i':
    memcpy(&integer, key + 1, sizeof integer);
    idem__write_int(writer, integer);
    return;
  case 's': idem__write_string(writer, key + 1, len - 1); return;
  case 'b': idem__write_raw(writer, key + 1, len - 1); return;
  default: write_number(writer, key, len);
  }
}
