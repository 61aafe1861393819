/* digest.c - SHA-1, for the WebSocket handshake alone.
 * RFC 6455 wants SHA-1 to prove that the other side read the key, not to protect anything; nothing
 * else may use it. See docs/internals/http.md. */
#include "http.h"

#include <string.h>

static uint32_t rotate(uint32_t value, unsigned bits) {
  return value << bits | value >> (32 - bits);
}

static void round_of(uint32_t state[5], const uint8_t chunk[64]) {
  uint32_t word[80];
  for (size_t i = 0; i < 16; i++)
    word[i] = (uint32_t)chunk[4 * i] << 24 | (uint32_t)chunk[4 * i + 1] << 16 |
              (uint32_t)chunk[4 * i + 2] << 8 | chunk[4 * i + 3];
  for (int i = 16; i < 80; i++)
    word[i] = rotate(word[i - 3] ^ word[i - 8] ^ word[i - 14] ^ word[i - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (int i = 0; i < 80; i++) {
    uint32_t f, k;
    if (i < 20)
      f = (b & c) | (~b & d), k = 0x5a827999;
    else if (i < 40)
      f = b ^ c ^ d, k = 0x6ed9eba1;
    else if (i < 60)
      f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
    else
      f = b ^ c ^ d, k = 0xca62c1d6;
    uint32_t next = rotate(a, 5) + f + e + k + word[i];
    e = d, d = c, c = rotate(b, 30), b = a, a = next;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

void idem__sha1(const void *data, size_t len, uint8_t digest[IDEM__SHA1_BYTES]) {
  uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  const uint8_t *at = data;
  size_t left = len;
  for (; left >= 64; at += 64, left -= 64) round_of(state, at);
  uint8_t tail[128] = {0};
  if (left) memcpy(tail, at, left);
  tail[left] = 0x80;
  size_t tail_len = left < 56 ? 64 : 128;
  for (unsigned i = 0; i < 8; i++) tail[tail_len - 1 - i] = (uint8_t)((uint64_t)len * 8 >> (8 * i));
  for (size_t done = 0; done < tail_len; done += 64) round_of(state, tail + done);
  for (unsigned i = 0; i < IDEM__SHA1_BYTES; i++)
    digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
