/* nonce.c - nonces that nobody keeps: the number of a period and a tag over it (HMAC-SHA-256), so that only who has the key can
 * make one, and nobody beforehand. The same for everybody within a period; who has the same key takes each other's. */
#include "proof.h"

#include <string.h>

#define TIME_BYTES 4u
#define TAG_BYTES 16u
_Static_assert((TIME_BYTES + TAG_BYTES) * 4 / 3 + 2 == IDEM__NONCE_TEXT, "base64url and a NUL");

static void make(const uint8_t key[IDEM__NONCE_KEY_BYTES], uint32_t period,
                 uint8_t out[TIME_BYTES + TAG_BYTES]) {
  static const char purpose[] = "idem proof nonce";
  uint8_t tag[IDEM_SHA256_BYTES];
  idem__hmac hmac;
  for (unsigned i = 0; i < TIME_BYTES; i++) out[i] = (uint8_t)(period >> (24 - 8 * i));
  idem__hmac_init(&hmac, key);
  idem__hmac_add(&hmac, purpose, sizeof purpose);
  idem__hmac_add(&hmac, out, TIME_BYTES);
  idem__hmac_end(&hmac, tag);
  memcpy(out + TIME_BYTES, tag, TAG_BYTES);
}

static uint32_t period_of(uint64_t now_s) { return (uint32_t)(now_s / IDEM__NONCE_PERIOD_S); }

void idem__nonce_write(const uint8_t key[IDEM__NONCE_KEY_BYTES], uint64_t now_s,
                       char out[IDEM__NONCE_TEXT]) {
  uint8_t bytes[TIME_BYTES + TAG_BYTES];
  idem_buf text;
  make(key, period_of(now_s), bytes);
  idem_buf_fixed(&text, out, IDEM__NONCE_TEXT - 1);
  (void)idem_base64_encode(&text, bytes, sizeof bytes, IDEM_BASE64_URL);
  out[text.len] = '\0';
}

/* Another process that has the key may be a little ahead of us. */
idem__nonce_age idem__nonce_read(const uint8_t key[IDEM__NONCE_KEY_BYTES], const char *text,
                                 size_t len, uint64_t now_s) {
  uint8_t expected[TIME_BYTES + TAG_BYTES];
  char room[TIME_BYTES + TAG_BYTES + 1];
  uint32_t now = period_of(now_s), period = 0;
  idem_buf given;
  idem_buf_fixed(&given, room, sizeof room);
  if (idem_base64_decode(&given, text, len, IDEM_BASE64_URL) != IDEM_OK ||
      given.len != TIME_BYTES + TAG_BYTES)
    return IDEM__NONCE_NONE;
  for (unsigned i = 0; i < TIME_BYTES; i++) period = period << 8 | (uint8_t)room[i];
  if (period - now + 1 > 2) return IDEM__NONCE_NONE; /* the one before, this, the next */
  make(key, period, expected);
  if (!idem__equal_secret(room, expected, sizeof expected)) return IDEM__NONCE_NONE;
  return period == now - 1 ? IDEM__NONCE_AGED : IDEM__NONCE_FRESH;
}
