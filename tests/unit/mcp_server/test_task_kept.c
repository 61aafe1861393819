/* test_task_kept.c - a store that came back without its last writes has tasks as they were before: the server that ran them says again what
 * they came to. Versions are set back as such a store's are. */
#include "support/mcp_peer.h"
#include "support/unit.h"

#include "mcp_server/mcp_server.h"
#include "mcp_server/task.h"

#include <stdio.h>
#include <string.h>

enum { TASKS = 3 * IDEM__TASKS_DOUBTED + 7 };

typedef struct world {
  _Atomic uint64_t clock;
  idem__store *store;
  idem_server *server;
  mcp_peer peer;
  idem_request *kept; /* the last */
  char ids[TASKS][IDEM__TASK_ID + 1];
} world;

static void run(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  ((world *)user)->kept = request;
  idem_request_keep(request);
}

/* Never the same. */
static void count_up(void *ctx, void *bytes, size_t len) {
  static uint64_t next = 1;
  (void)ctx;
  memset(bytes, 0, len);
  memcpy(bytes, &next, len < sizeof next ? len : sizeof next);
  next++;
}

static void set_up(world *in) {
  memset(in, 0, sizeof *in);
  in->clock = 1000;
  idem__store_memory_opts opts = {.clock = &in->clock};
  assert_int_equal(idem__store_memory_new(&opts, &in->store), IDEM_OK);
  in->server = mcp_test_server(&(idem_server_opts){.random = count_up});
  assert_int_equal(idem__server_use_store(in->server, in->store), IDEM_OK);
  idem_tool tool = {.name = "t", .task = IDEM_TASK_OPTIONAL, .fn = run, .user = in};
  assert_int_equal(idem_server_add_tool(in->server, &tool, NULL, 0), IDEM_OK);
  mcp_peer_open(&in->peer, in->server, "2025-11-25");
}

static void tear_down(world *in) {
  mcp_peer_close(&in->peer);
  idem_server_free(in->server);
  idem__store_unref(in->store);
}

static void begin(world *in, int which) {
  mcp_peer_more(&in->peer); /* what is told of the one before */
  const char *answer = mcp_peer_ask(&in->peer, "tools/call", "\"name\":\"t\",\"task\":{}");
  const char *id = strstr(answer, "\"taskId\":\"");
  assert_non_null(id);
  memcpy(in->ids[which], id + strlen("\"taskId\":\""), IDEM__TASK_ID);
}

static idem__store_op op_on(const world *in, int which, idem__store_verb verb) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_TASKS,
                          .name = in->ids[which],
                          .name_len = IDEM__TASK_ID,
                          .expect = IDEM__STORE_ANY,
                          .now_ms = idem__server_wall_ms(in->server)};
}

static idem__store_answer get(const world *in, int which, idem_buf *value) {
  idem__store_op op = op_on(in, which, IDEM__STORE_GET);
  idem_buf_init(value, NULL, 1 << 16);
  return idem__store_ask(in->store, &op, value);
}

static void take_from(const world *in, int which) {
  idem__store_op op = op_on(in, which, IDEM__STORE_REMOVE);
  assert_int_equal(idem__store_ask(in->store, &op, NULL).status, IDEM_OK);
}

static void put(world *in, int which, const char *text, size_t len, uint64_t version) {
  uint64_t now = in->clock;
  idem__store_op op = op_on(in, which, IDEM__STORE_PUT);
  op.bytes = text;
  op.len = len;
  in->clock = version - 2; /* its birth is counted, too */
  assert_int_equal(idem__store_ask(in->store, &op, NULL).version, version);
  in->clock = now;
}

static void come_back(world *in) {
  idem__store_change change = {
      .event = IDEM__STORE_WAS_AWAY, .space = IDEM__STORE_KEYS, .name = ""};
  idem__identity_on_change(&change, in->server);
  idem__worker_deliver(in->server->own_worker);
}

static void expect_record(const world *in, int which, const char *part) {
  idem_buf value;
  idem__store_answer answer = get(in, which, &value);
  assert_int_equal(answer.status, IDEM_OK);
  idem_buf_put(&value, "", 1);
  if (!strstr(value.data, part)) fail_msg("no %s in task %d: %s", part, which, value.data);
  idem_buf_deinit(&value);
}

/* A task that is over, of which the store has what it was before. */
static void finish_and_roll_back(world *in, int which) {
  idem_buf before;
  begin(in, which);
  uint64_t version = get(in, which, &before).version;
  idem_tool_text(in->kept, "all done", 8);
  expect_record(in, which, "all done");
  take_from(in, which);
  put(in, which, before.data, before.len, version);
  expect_record(in, which, "\"working\"");
  idem_buf_deinit(&before);
}

static void what_a_task_came_to_is_said_again(void **state) {
  world in;
  (void)state;
  set_up(&in);
  finish_and_roll_back(&in, 0);
  come_back(&in);
  expect_record(&in, 0, "\"completed\"");
  expect_record(&in, 0, "all done");
  tear_down(&in);
}

static void a_task_that_is_gone_is_written_anew(void **state) {
  world in;
  (void)state;
  set_up(&in);
  begin(&in, 0);
  idem_tool_text(in.kept, "all done", 8);
  take_from(&in, 0);
  come_back(&in);
  expect_record(&in, 0, "all done");
  tear_down(&in);
}

/* What another server did meanwhile counts as ever: it brought the task to its end. */
static void what_another_changed_is_taken(void **state) {
  static const char theirs[] = "{\"principal\":\"\",\"state\":\"cancelled\",\"message\":null,"
                               "\"created\":1,\"updated\":2,\"isError\":false,\"round\":0,"
                               "\"outcome\":null}";
  world in;
  idem_buf before;
  (void)state;
  set_up(&in);
  begin(&in, 0);
  uint64_t version = get(&in, 0, &before).version;
  idem_buf_deinit(&before);
  idem_tool_text(in.kept, "all done", 8);
  take_from(&in, 0);
  put(&in, 0, theirs, sizeof theirs - 1, version);
  come_back(&in);
  expect_record(&in, 0, "\"cancelled\"");
  tear_down(&in);
}

static void what_the_store_has_is_left_alone(void **state) {
  world in;
  idem_buf value;
  (void)state;
  set_up(&in);
  begin(&in, 0);
  idem_tool_text(in.kept, "all done", 8);
  uint64_t version = get(&in, 0, &value).version;
  idem_buf_deinit(&value);
  come_back(&in);
  assert_int_equal(get(&in, 0, &value).version, version);
  idem_buf_deinit(&value);
  tear_down(&in);
}

/* More than are looked for at a time. */
static void all_of_many_are_said_again(void **state) {
  world in;
  (void)state;
  set_up(&in);
  for (int i = 0; i < TASKS; i++) finish_and_roll_back(&in, i);
  come_back(&in);
  for (int i = 0; i < TASKS; i++) expect_record(&in, i, "all done");
  tear_down(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_task_came_to_is_said_again),
      cmocka_unit_test(a_task_that_is_gone_is_written_anew),
      cmocka_unit_test(what_another_changed_is_taken),
      cmocka_unit_test(what_the_store_has_is_left_alone),
      cmocka_unit_test(all_of_many_are_said_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
