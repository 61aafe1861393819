/* fuzz_client.c - a conn with calls pending, fed with what a hostile server might answer. Each call
 * ends exactly once, and junk is never answered. */
#include "conn_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  fuzz_world *world = (fuzz_world *)user;
  world->calls_ended++;
  if (response->status == IDEM_OK && !response->result) abort();
  if (response->status == IDEM_E_REMOTE && !response->message) abort();
  if (response->result) {
    char *text = yyjson_val_write(response->result, 0, NULL);
    free(text);
  }
}

static void start_calls(fuzz_world *world, size_t count) {
  idem_call_opts opts = {.timeout_ms = 100};
  for (size_t i = 0; i < count; i++) {
    const idem_call_opts *chosen = i % 2 ? &opts : NULL;
    if (idem_call_json(world->conn, "m", "[1]", 3, chosen, on_response, world, NULL) == IDEM_OK) {
      world->calls_started++;
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  fuzz_world world = {.policy = idem_policy_preset((idem_profile)(data[0] % 3))};
  world.policy.framing = data[0] & 8 ? IDEM_FRAMING_CONTENT_LENGTH : IDEM_FRAMING_LINE;
  world.policy.null_id_error = (idem_null_id_error)(data[0] / 16 % 3);
  world.policy.answer_junk = false;
  size_t piece = data[1] ? data[1] : size;
  data += 2;
  size -= 2;
  fuzz_open(&world);
  start_calls(&world, 5);
  while (size) {
    size_t len = piece < size ? piece : size;
    if (idem_conn_feed(world.conn, (const char *)data, len) != IDEM_OK) break;
    data += len;
    size -= len;
    world.now_ms += 3;
    if (idem_conn_deadline(world.conn) <= world.now_ms) idem_conn_expire(world.conn);
    fuzz_drain(&world);
  }
  idem_cancel(world.conn, 1);
  fuzz_close(&world);
  return 0;
}
