/* fuzz_websocket.c - any bytes as WebSocket frames, to a server and to a client: the same messages,
 * answers and close code at any split, all messages UTF-8 and within the limit. */
#include "http/http.h"

#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) abort();                                                                     \
  } while (0)
#define LIMIT 512

static void on_message(idem__websocket *socket, const char *text, size_t len, void *user) {
  idem_buf *out = user;
  MUST(len <= LIMIT && idem_utf8_valid(text, len));
  MUST(idem_buf_printf(out, "%zu:", len) == IDEM_OK);
  MUST(idem_buf_put(out, text, len) == IDEM_OK);
  idem__websocket_send(socket, text, len);
}

static void on_close(idem__websocket *socket, uint16_t code, void *user) {
  (void)socket;
  MUST(idem_buf_printf(user, "close %u;", (unsigned)code) == IDEM_OK);
}

static idem_status keep(void *user, const char *data, size_t len) {
  return idem_buf_put(user, data, len);
}

static void zeros(void *ctx, uint8_t *bytes, size_t len) {
  (void)ctx;
  memset(bytes, 0, len);
}

static idem_buf play(bool client, const uint8_t *data, size_t size, unsigned seed) {
  idem_buf out;
  idem__websocket *socket;
  idem_buf_init(&out, NULL, (size_t)1 << 30);
  idem__websocket_opts opts = {.client = client,
                               .message_bytes = LIMIT,
                               .on_message = on_message,
                               .on_close = on_close,
                               .output = keep,
                               .random = zeros,
                               .user = &out};
  MUST(idem__websocket_new(&opts, &socket) == IDEM_OK);
  while (size) {
    size_t take = seed ? 1 + (seed = seed * 1103515245u + 12345u) / 65536u % 9u : size;
    if (take > size) take = size;
    if (idem__websocket_feed(socket, (const char *)data, take) != IDEM_OK) break;
    data += take;
    size -= take;
  }
  idem__websocket_free(socket);
  return out;
}

static void compare(bool client, const uint8_t *data, size_t size) {
  idem_buf whole = play(client, data, size, 0);
  for (unsigned seed = 1; seed < 4; seed++) {
    idem_buf pieces = play(client, data, size, seed);
    MUST(whole.len == pieces.len && memcmp(whole.data, pieces.data, whole.len) == 0);
    idem_buf_deinit(&pieces);
  }
  idem_buf_deinit(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  compare(false, data, size);
  compare(true, data, size);
  return 0;
}
