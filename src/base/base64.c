/* base64.c - RFC 4648 in both alphabets.
 * Decoding accepts exactly what encoding writes: a text that stands for bytes in a header or in a
 * sealed state must not have a second spelling. */
#include "base.h"

static const char standard_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* One to three bytes as two to four digits; returns how many. */
static size_t put_group(char *at, const uint8_t *bytes, size_t count, const char *digits) {
  uint32_t group = (uint32_t)bytes[0] << 16;
  if (count > 1) group |= (uint32_t)bytes[1] << 8;
  if (count > 2) group |= bytes[2];
  for (size_t i = 0; i <= count; i++) at[i] = digits[group >> (18 - 6 * i) & 63];
  return count + 1;
}

idem_status idem_base64_encode(idem_buf *out, const void *bytes, size_t len,
                               idem_base64_alphabet alphabet) {
  const char *digits = alphabet == IDEM_BASE64_URL ? url_digits : standard_digits;
  if (len > SIZE_MAX / 2) return IDEM_E_LIMIT;
  size_t tail = len % 3, tail_digits = tail ? tail + 1 : 0;
  if (tail && alphabet == IDEM_BASE64_STANDARD) tail_digits = 4;
  idem_status status = idem_buf_reserve(out, len / 3 * 4 + tail_digits);
  if (status != IDEM_OK || !len) return status;
  const uint8_t *in = bytes;
  char *at = out->data + out->len;
  for (; len >= 3; len -= 3, in += 3) at += put_group(at, in, 3, digits);
  if (len) {
    at += put_group(at, in, len, digits);
    for (size_t i = len; i < 3 && alphabet == IDEM_BASE64_STANDARD; i++) *at++ = '=';
  }
  out->len = (size_t)(at - out->data);
  return IDEM_OK;
}

/* 64: not a digit. */
static uint32_t digit_value(char c, idem_base64_alphabet alphabet) {
  if (c >= 'A' && c <= 'Z') return (uint32_t)(c - 'A');
  if (c >= 'a' && c <= 'z') return (uint32_t)(c - 'a') + 26;
  if (c >= '0' && c <= '9') return (uint32_t)(c - '0') + 52;
  if (c == (alphabet == IDEM_BASE64_URL ? '-' : '+')) return 62;
  if (c == (alphabet == IDEM_BASE64_URL ? '_' : '/')) return 63;
  return 64;
}

/* Two to four digits as one to three bytes; false: a foreign digit, or bits left over. */
static bool take_group(const char *text, size_t count, idem_base64_alphabet alphabet,
                       uint8_t *bytes) {
  uint32_t group = 0;
  for (size_t i = 0; i < 4; i++) {
    uint32_t value = i < count ? digit_value(text[i], alphabet) : 0;
    if (value == 64) return false;
    group = group << 6 | value;
  }
  bytes[0] = (uint8_t)(group >> 16);
  if (count > 2) bytes[1] = (uint8_t)(group >> 8);
  if (count > 3) bytes[2] = (uint8_t)group;
  return count == 4 || (group & (count == 2 ? 0xffffu : 0xffu)) == 0;
}

/* The digits without their padding; false: the padding is not what the length wants. */
static bool strip_padding(const char *text, size_t *len, idem_base64_alphabet alphabet) {
  if (alphabet == IDEM_BASE64_STANDARD) {
    if (*len % 4) return false;
    for (int i = 0; i < 2 && *len && text[*len - 1] == '='; i++) --*len;
  }
  return *len % 4 != 1;
}

idem_status idem_base64_decode(idem_buf *out, const char *text, size_t len,
                               idem_base64_alphabet alphabet) {
  if (!strip_padding(text, &len, alphabet)) return IDEM_E_INVAL;
  size_t bytes = len / 4 * 3 + (len % 4 ? len % 4 - 1 : 0);
  idem_status status = idem_buf_reserve(out, bytes);
  if (status != IDEM_OK) return status;
  if (!out->data) return len ? IDEM_E_INVAL : IDEM_OK; /* no room was needed: there is nothing */
  char *start = out->data + out->len;
  for (size_t i = 0, made = 0; i < len; i += 4) {
    uint8_t group[3];
    size_t count = len - i < 4 ? len - i : 4;
    if (!take_group(text + i, count, alphabet, group)) return IDEM_E_INVAL;
    for (size_t j = 0; j + 1 < count; j++) start[made++] = (char)group[j];
  }
  out->len += bytes;
  return IDEM_OK;
}
