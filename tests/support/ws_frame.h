/* ws_frame.h - WebSocket frames as bytes, well-formed or not, for tests. */
#ifndef IDEM_TEST_WS_FRAME_H
#define IDEM_TEST_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FIN 0x80
#define TEXT 1
#define BINARY 2
#define CLOSE 8
#define PING 9
#define PONG 10

/* Appends a frame, masked as a client's. */
static inline size_t frame(char *out, unsigned first, const char *payload, size_t len,
                           bool masked) {
  static const uint8_t mask[4] = {0x12, 0x34, 0x56, 0x78};
  size_t at = 0;
  out[at++] = (char)first;
  unsigned bit = masked ? 0x80 : 0;
  if (len < 126) {
    out[at++] = (char)(bit | len);
  } else if (len < 65536) {
    out[at++] = (char)(bit | 126);
    out[at++] = (char)(len >> 8);
    out[at++] = (char)len;
  } else {
    out[at++] = (char)(bit | 127);
    for (int i = 7; i >= 0; i--) out[at++] = (char)((uint64_t)len >> (8 * i));
  }
  if (masked) {
    memcpy(out + at, mask, 4);
    at += 4;
  }
  for (size_t i = 0; i < len; i++)
    out[at++] = (char)(masked ? payload[i] ^ (char)mask[i % 4] : payload[i]);
  return at;
}

#endif
