/* fuzz_message.c - one whole message in, at most one out: the classifier and the answers. */
#include "conn_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_world world = {.policy = idem_policy_preset(IDEM_PROFILE_JSONRPC)};
  world.policy.framing = IDEM_FRAMING_WHOLE;
  fuzz_open(&world);
  if (idem_conn_feed(world.conn, (const char *)data, size) != IDEM_OK) abort();
  if (idem_conn_feed_eof(world.conn) != IDEM_OK) abort();
  while (world.kept_count) fuzz_reply_one(&world);
  idem_chunk chunk;
  size_t chunks = 0;
  while (idem_conn_next_chunk(world.conn, &chunk)) {
    chunks++;
    idem_chunk_free(&chunk);
  }
  if (chunks > 1) fuzz_fail("more than one answer to one message", (const char *)data, size);
  if (!idem_conn_done(world.conn)) fuzz_fail("something is still owed", (const char *)data, size);
  fuzz_close(&world);
  return 0;
}
