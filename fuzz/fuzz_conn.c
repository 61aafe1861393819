/* fuzz_conn.c - a whole conn: the first byte chooses profile and policy, the second how the rest is
 * split; between the pieces time passes and kept requests are answered. */
#include "conn_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void choose(fuzz_world *world, uint8_t how) {
  world->policy = idem_policy_preset((idem_profile)(how % 3));
  if (how & 4) world->policy.framing = IDEM_FRAMING_LINE;
  if (how & 8) world->policy.framing = IDEM_FRAMING_CONTENT_LENGTH;
  if (how & 16) world->policy.batches = true;
  if (how & 32) world->policy.guard_http = true;
  if (how & 64) world->policy.limits.message_bytes = 200;
  if (how & 128) {
    world->policy.unknown_id = IDEM_UNKNOWN_ID_OMIT;
    world->policy.limits.in_flight = 4;
    world->policy.limits.request_ms = 50;
    world->policy.limits.queued_output_bytes = 500;
    world->policy.codes = IDEM_CODES_MODERN;
  }
}

static void turn(fuzz_world *world, size_t n) {
  if (n % 5 == 1) fuzz_drain(world);
  if (n % 7 == 2) fuzz_reply_one(world);
  if (n % 3 == 2) world->now_ms += 20;
  if (idem_conn_deadline(world->conn) <= world->now_ms) idem_conn_expire(world->conn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  fuzz_world world = {0};
  choose(&world, data[0]);
  size_t piece = data[1] ? data[1] : size, turns = 0;
  data += 2;
  size -= 2;
  fuzz_open(&world);
  while (size) {
    size_t len = piece < size ? piece : size;
    char *copy = malloc(len);
    if (!copy) abort();
    memcpy(copy, data, len);
    idem_status status = idem_conn_feed(world.conn, copy, len);
    free(copy);
    data += len;
    size -= len;
    if (status != IDEM_OK && idem_conn_feed(world.conn, "x", 1) != status) abort();
    turn(&world, turns++);
  }
  if (turns % 2) idem_conn_feed_eof(world.conn);
  if (turns % 4 == 3) idem_conn_abort(world.conn);
  if (world.answers_out > world.elements_in + 2 * world.messages_in + turns * 256 + 16) abort();
  fuzz_close(&world);
  return 0;
}
