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

/* What a character stands for, in its lower six bits, in which alphabet: the seventh bit is of the URL's, the eighth of the standard one. From
 * the space on; what is neither is no digit. */
#define FIRST_DIGIT 32u
#define OF_URL 0x40u
#define OF_STANDARD 0x80u
static const uint8_t digit_values[128 - FIRST_DIGIT] = {
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbe, 0x00, 0x7e, 0x00, 0xbf,
    0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xce,
    0xcf, 0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0x00, 0x00, 0x00, 0x00, 0x7f,
    0x00, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8,
    0xe9, 0xea, 0xeb, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf2, 0xf3, 0x00, 0x00, 0x00, 0x00, 0x00};

static uint32_t digit_value(char c) {
  uint8_t at = (uint8_t)((uint8_t)c - FIRST_DIGIT);
  return at < sizeof digit_values ? digit_values[at] : 0;
}

/* Two to four digits as one to three bytes; false: a foreign digit, or bits left over. */
static bool take_group(const char *text, size_t count, uint32_t of, uint8_t *bytes) {
  uint32_t group = 0, all = of;
  for (size_t i = 0; i < count; i++) {
    uint32_t value = digit_value(text[i]);
    all &= value;
    group |= (value & 63) << (18 - 6 * i);
  }
  bytes[0] = (uint8_t)(group >> 16);
  if (count > 2) bytes[1] = (uint8_t)(group >> 8);
  if (count > 3) bytes[2] = (uint8_t)group;
  return all && (count == 4 || (group & (count == 2 ? 0xffffu : 0xffu)) == 0);
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
  uint32_t of = alphabet == IDEM_BASE64_URL ? OF_URL : OF_STANDARD;
  uint8_t *at = (uint8_t *)out->data + out->len;
  const char *end = text + len;
  for (; end - text >= 4; text += 4, at += 3)
    if (!take_group(text, 4, of, at)) return IDEM_E_INVAL;
  if (text < end && !take_group(text, (size_t)(end - text), of, at)) return IDEM_E_INVAL;
  out->len += bytes;
  return IDEM_OK;
}
