/* sha256.c - SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104), and comparing without telling where.
 * The core links no cryptographic library; sealing a few hundred bytes needs no more than this. */
#include "base.h"

#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, unsigned by) { return word >> by | word << (32 - by); }

static uint32_t load_big_endian(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void expand(uint32_t schedule[64], const uint8_t *block) {
  for (size_t i = 0; i < 16; i++) schedule[i] = load_big_endian(block + i * 4);
  for (size_t i = 16; i < 64; i++) {
    uint32_t a = schedule[i - 15], b = schedule[i - 2];
    uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
    uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
    schedule[i] = schedule[i - 16] + s0 + schedule[i - 7] + s1;
  }
}

/* One round. The letters of the standard move on by one place with each; here they stay, and it is `turn` that names them, so
 * that all of them live in registers. */
static IDEM__INLINE void round_of(uint32_t s[8], unsigned turn, uint32_t word) {
  uint32_t a = s[(8 - turn) & 7], b = s[(9 - turn) & 7], c = s[(10 - turn) & 7];
  uint32_t e = s[(12 - turn) & 7], f = s[(13 - turn) & 7], g = s[(14 - turn) & 7];
  uint32_t sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
  uint32_t sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
  uint32_t *d = &s[(11 - turn) & 7], *h = &s[(15 - turn) & 7];
  uint32_t t1 = *h + sum1 + ((e & f) ^ (~e & g)) + word;
  *d += t1;
  *h = t1 + sum0 + ((a & b) ^ (a & c) ^ (b & c));
}

static void compress(uint32_t state[8], const uint8_t *block) {
  uint32_t w[64], s[8];
  expand(w, block);
  memcpy(s, state, sizeof s);
  for (size_t i = 0; i < 64; i += 8) {
    round_of(s, 0, round_constants[i] + w[i]);
    round_of(s, 1, round_constants[i + 1] + w[i + 1]);
    round_of(s, 2, round_constants[i + 2] + w[i + 2]);
    round_of(s, 3, round_constants[i + 3] + w[i + 3]);
    round_of(s, 4, round_constants[i + 4] + w[i + 4]);
    round_of(s, 5, round_constants[i + 5] + w[i + 5]);
    round_of(s, 6, round_constants[i + 6] + w[i + 6]);
    round_of(s, 7, round_constants[i + 7] + w[i + 7]);
  }
  for (size_t i = 0; i < 8; i++) state[i] += s[i];
}

void idem_sha256_init(idem_sha256 *sha) {
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(sha->state, start, sizeof start);
  sha->len = 0;
}

void idem_sha256_add(idem_sha256 *sha, const void *bytes, size_t len) {
  const uint8_t *at = bytes;
  size_t filled = (size_t)(sha->len % 64);
  sha->len += len;
  while (len) {
    size_t take = 64 - filled < len ? 64 - filled : len;
    memcpy(sha->block + filled, at, take);
    filled += take;
    at += take;
    len -= take;
    if (filled == 64) {
      compress(sha->state, sha->block);
      filled = 0;
    }
  }
}

void idem_sha256_end(idem_sha256 *sha, uint8_t digest[IDEM_SHA256_BYTES]) {
  static const uint8_t padding[64] = {0x80};
  uint64_t bits = sha->len * 8;
  uint8_t length[8];
  size_t filled = (size_t)(sha->len % 64);
  idem_sha256_add(sha, padding, filled < 56 ? 56 - filled : 120 - filled);
  for (size_t i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - i * 8));
  idem_sha256_add(sha, length, sizeof length);
  for (size_t i = 0; i < IDEM_SHA256_BYTES; i++) {
    digest[i] = (uint8_t)(sha->state[i / 4] >> (24 - i % 4 * 8));
  }
}

void idem__hmac_init(idem__hmac *hmac, const uint8_t key[IDEM_SHA256_BYTES]) {
  uint8_t pad[64];
  memset(pad, 0x36, sizeof pad);
  for (size_t i = 0; i < IDEM_SHA256_BYTES; i++) pad[i] ^= key[i];
  idem_sha256_init(&hmac->inner);
  idem_sha256_add(&hmac->inner, pad, sizeof pad);
  for (size_t i = 0; i < sizeof pad; i++) pad[i] ^= 0x36 ^ 0x5c;
  idem_sha256_init(&hmac->outer);
  idem_sha256_add(&hmac->outer, pad, sizeof pad);
}

void idem__hmac_add(idem__hmac *hmac, const void *bytes, size_t len) {
  idem_sha256_add(&hmac->inner, bytes, len);
}

void idem__hmac_end(idem__hmac *hmac, uint8_t tag[IDEM_SHA256_BYTES]) {
  idem_sha256_end(&hmac->inner, tag);
  idem_sha256_add(&hmac->outer, tag, IDEM_SHA256_BYTES);
  idem_sha256_end(&hmac->outer, tag);
}

bool idem__equal_secret(const void *a, const void *b, size_t len) {
  const volatile uint8_t *x = a, *y = b;
  uint8_t difference = 0;
  for (size_t i = 0; i < len; i++) difference |= (uint8_t)(x[i] ^ y[i]);
  return difference == 0;
}
