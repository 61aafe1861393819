/* test_mcp_examples.c - the examples that speak MCP do what the guide says, in both eras. */
#include "mcp_client.h"

#include <signal.h>
#include <unistd.h>

#define PROGRAM(name) ((const char *const[]){IDEM_BIN_DIR "/" name, NULL})
#define ELICITS "{\"elicitation\":{\"form\":{}}}"
#define TASKS "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"

static const char *const eras[] = {"2025-11-25", "2026-07-28"};

static void the_calculator_calculates_in_both_eras(void **state) {
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    mcp_client client = mcp_start(PROGRAM("calculator"), eras[i], "{}");
    mcp_expect(mcp_call(&client, "calculate", "{\"a\":6,\"sign\":\"*\",\"b\":7}"),
               "\"structuredContent\":{\"value\":42.0}");
    mcp_expect(mcp_call(&client, "calculate", "{\"a\":6,\"sign\":\"/\",\"b\":0}"),
               "\"isError\":true");
    mcp_expect(mcp_call(&client, "calculate", "{\"a\":6}"), "\"isError\":true");
    mcp_expect(mcp_call(&client, "calculate", "{\"a\":1,\"sign\":\"+\",\"sign\":7,\"b\":1}"),
               "\"isError\":true");
    mcp_expect(mcp_call(&client, "calculate", "{\"a\":1e999,\"sign\":\"+\",\"b\":1}"), "-32602");
    assert_int_equal(child_end(&client.server), 0);
  }
}

static void two_eras_share_one_calculator(void **state) {
  (void)state;
  mcp_client client = mcp_start(PROGRAM("calculator"), "2025-11-25", "{}");
  client.modern = true;
  mcp_expect(mcp_call(&client, "calculate", "{\"a\":1,\"sign\":\"-\",\"b\":2}"),
             "\"resultType\":\"complete\"");
  client.modern = false;
  assert_null(
      strstr(mcp_call(&client, "calculate", "{\"a\":1,\"sign\":\"-\",\"b\":2}"), "resultType"));
  assert_int_equal(child_end(&client.server), 0);
}

/* ------------------------------------------------------------------------ progress */

#define COUNT "\"name\":\"count_down\",\"arguments\":{\"from\":3,\"step_ms\":1}"
#define FOR_EVER "\"name\":\"count_down\",\"arguments\":{\"from\":1000,\"step_ms\":60000}"

static void progress_is_told_to_who_asks_for_it(void **state) {
  (void)state;
  mcp_client client = mcp_start(PROGRAM("progress"), "2025-11-25", "{}");
  mcp_send(&client, "tools/call", COUNT ",\"_meta\":{\"progressToken\":\"p\"}");
  for (int i = 1; i <= 3; i++) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"progressToken\":\"p\",\"progress\":%d,\"total\":3", i);
    mcp_expect(child_line(client.out), wanted);
  }
  mcp_expect(child_line(client.out), "Lift-off!");
  mcp_send(&client, "tools/call", COUNT);
  mcp_expect(child_line(client.out), "Lift-off!");
  assert_int_equal(child_end(&client.server), 0);
}

static void a_cancelled_count_is_not_answered(void **state) {
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    mcp_client client = mcp_start(PROGRAM("progress"), eras[i], "{}");
    char line[128];
    mcp_send(&client, "tools/call", FOR_EVER);
    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
             "\"requestId\":%u}}\n",
             client.id);
    child_send(client.in, line);
    mcp_send(&client, "tools/call", COUNT);
    mcp_expect(child_line(client.out), "Lift-off!");
    close(client.in);
    client.server.in = -1;
    assert_string_equal(child_rest(client.out), "");
    assert_int_equal(child_end(&client.server), 0);
  }
}

static void take_task_id(const char *answer, char id[33]) {
  const char *at = strstr(answer, "\"taskId\":\"");
  assert_non_null(at);
  snprintf(id, 33, "%s", at + strlen("\"taskId\":\""));
}

static void a_task_is_polled_until_it_is_completed(void **state) {
  (void)state;
  mcp_client client = mcp_start(PROGRAM("progress"), "2026-07-28", TASKS);
  char id[33], members[64];
  take_task_id(mcp_ask(&client, "tools/call", COUNT), id);
  snprintf(members, sizeof members, "\"taskId\":\"%s\"", id);
  const char *answer;
  do answer = mcp_ask(&client, "tasks/get", members);
  while (strstr(answer, "\"status\":\"working\""));
  mcp_expect(answer, "\"status\":\"completed\"");
  assert_null(strstr(answer, "statusMessage")); /* it said how far it was; it has arrived */
  mcp_expect(answer, "Lift-off!");
  assert_int_equal(child_end(&client.server), 0);
}

static void an_older_task_gives_its_result_when_it_is_over(void **state) {
  (void)state;
  mcp_client client = mcp_start(PROGRAM("progress"), "2025-11-25", "{}");
  char id[33], members[64];
  take_task_id(mcp_ask(&client, "tools/call", COUNT ",\"task\":{}"), id);
  snprintf(members, sizeof members, "\"taskId\":\"%s\"", id);
  mcp_expect(mcp_ask(&client, "tasks/result", members), "Lift-off!");
  assert_int_equal(child_end(&client.server), 0);
}

static void a_task_can_be_cancelled_and_the_end_does_not_wait_for_one(void **state) {
  (void)state;
  mcp_client client = mcp_start(PROGRAM("progress"), "2026-07-28", TASKS);
  char id[33], members[64];
  take_task_id(mcp_ask(&client, "tools/call", FOR_EVER), id);
  snprintf(members, sizeof members, "\"taskId\":\"%s\"", id);
  mcp_expect(mcp_ask(&client, "tasks/cancel", members), "\"result\"");
  mcp_expect(mcp_ask(&client, "tasks/get", members), "\"status\":\"cancelled\"");
  mcp_expect(mcp_ask(&client, "tools/call", FOR_EVER), "\"status\":\"working\"");
  assert_int_equal(child_end(&client.server), 0);
}

/* -------------------------------------------------------------------------- elicit */

#define BOOK "\"name\":\"book_table\",\"arguments\":{\"guests\":2}"

static void an_older_client_is_asked_by_a_request(void **state) {
  (void)state;
  mcp_client client = mcp_start(PROGRAM("elicit"), "2025-11-25", "{\"elicitation\":{}}");
  mcp_send(&client, "tools/call", BOOK);
  mcp_expect(child_line(client.out), "\"id\":1,\"method\":\"elicitation/create\"");
  child_send(client.in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":\"accept\","
                        "\"content\":{\"place\":\"garden\",\"quiet\":true}}}\n");
  mcp_expect(child_line(client.out), "A quiet table for 2, garden.");
  mcp_send(&client, "tools/call", BOOK);
  mcp_expect(child_line(client.out), "\"id\":2,\"method\":\"elicitation/create\"");
  child_send(client.in,
             "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-1,\"message\":\"no\"}}\n");
  mcp_expect(child_line(client.out), "Nothing was booked.");
  assert_int_equal(child_end(&client.server), 0);
}

/* The params of the next round: the answers, and the state that came with the question. */
static const char *next_round(const char *asked, const char *answers) {
  static char params[4096];
  const char *state = strstr(asked, "\"requestState\":\"");
  assert_non_null(state);
  state += strlen("\"requestState\":\"");
  snprintf(params, sizeof params, BOOK ",\"inputResponses\":%s,\"requestState\":\"%.*s\"", answers,
           (int)strcspn(state, "\""), state);
  return params;
}

static void a_newer_client_comes_back_with_the_answer(void **state) {
  (void)state;
  mcp_client client = mcp_start(PROGRAM("elicit"), "2026-07-28", ELICITS);
  static const char *const answers[][2] = {
      {"{\"table\":{\"action\":\"accept\",\"content\":{\"place\":\"bar\"}}}",
       "A table for 2, bar."},
      {"{\"table\":{\"action\":\"decline\"}}", "Nothing was booked."},
      {"{\"table\":{\"action\":\"accept\",\"content\":{\"place\":\"roof\"}}}", "input_required"},
      {"{\"table\":{\"action\":\"accept\"}}", "input_required"},
  };
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    const char *asked = mcp_ask(&client, "tools/call", BOOK);
    mcp_expect(asked, "\"resultType\":\"input_required\"");
    mcp_expect(mcp_ask(&client, "tools/call", next_round(asked, answers[i][0])), answers[i][1]);
  }
  assert_int_equal(child_end(&client.server), 0);
}

static void a_client_that_cannot_be_asked_is_told(void **state) {
  (void)state;
  mcp_client client = mcp_start(PROGRAM("elicit"), "2026-07-28", "{}");
  mcp_expect(mcp_ask(&client, "tools/call", BOOK), "\"code\":-32021");
  assert_int_equal(child_end(&client.server), 0);
  client = mcp_start(PROGRAM("elicit"), "2025-11-25", "{}");
  mcp_expect(mcp_ask(&client, "tools/call", BOOK), "\"isError\":true");
  assert_int_equal(child_end(&client.server), 0);
}

/* --------------------------------------------------------------------------- epoll */

static void a_foreign_loop_serves_both_eras_on_stdio(void **state) {
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    mcp_client client = mcp_start(PROGRAM("epoll_server"), eras[i], "{}");
    mcp_expect(mcp_call(&client, "roll", "{\"sides\":1}"), "\"text\":\"1\"");
    mcp_expect(mcp_call(&client, "roll", "{\"sides\":1.0}"), "\"text\":\"1\"");
    mcp_expect(mcp_call(&client, "roll", "{\"sides\":0}"), "\"isError\":true");
    assert_int_equal(child_end(&client.server), 0);
  }
}

static void a_foreign_loop_serves_files(void **state) {
  (void)state;
  FILE *in = tmpfile(), *out = tmpfile();
  assert_true(in && out);
  for (int i = 0; i < 500; i++) {
    fprintf(in, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n", i);
  }
  fflush(in);
  rewind(in);
  child server = child_start_with(PROGRAM("epoll_server"), fileno(in), fileno(out));
  assert_int_equal(child_end(&server), 0);
  rewind(out);
  char line[256];
  int answers = 0;
  while (fgets(line, sizeof line, out)) answers += strstr(line, "\"result\":{}") != NULL;
  assert_int_equal(answers, 500);
  fclose(in);
  fclose(out);
}

static int connect_when_there(const char *path) {
  char url[256];
  int fd;
  snprintf(url, sizeof url, "unix:%s", path);
  for (uint64_t begin = child_now_ms(); (fd = child_try_connect(url)) < 0;) {
    assert_true(child_now_ms() - begin < 60000);
  }
  return fd;
}

static void a_foreign_loop_serves_many_peers(void **state) {
  (void)state;
  char folder[128], path[160];
  child_make_folder(folder, sizeof folder);
  snprintf(path, sizeof path, "%s/s", folder);
  child server = child_start((const char *const[]){IDEM_BIN_DIR "/epoll_server", path, NULL});
  mcp_client peers[8] = {0};
  for (size_t i = 0; i < 8; i++) {
    peers[i].in = peers[i].out = connect_when_there(path);
    mcp_hello(&peers[i], eras[i % 2], "{}");
  }
  for (size_t i = 0; i < 8; i++) {
    mcp_expect(mcp_call(&peers[i], "roll", "{\"sides\":1}"), "\"text\":\"1\"");
    close(peers[i].in);
  }
  kill(server.pid, SIGKILL);
  assert_int_equal(child_end(&server), -SIGKILL);
  child_remove_folder(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_calculator_calculates_in_both_eras),
      cmocka_unit_test(two_eras_share_one_calculator),
      cmocka_unit_test(progress_is_told_to_who_asks_for_it),
      cmocka_unit_test(a_cancelled_count_is_not_answered),
      cmocka_unit_test(a_task_is_polled_until_it_is_completed),
      cmocka_unit_test(an_older_task_gives_its_result_when_it_is_over),
      cmocka_unit_test(a_task_can_be_cancelled_and_the_end_does_not_wait_for_one),
      cmocka_unit_test(an_older_client_is_asked_by_a_request),
      cmocka_unit_test(a_newer_client_comes_back_with_the_answer),
      cmocka_unit_test(a_client_that_cannot_be_asked_is_told),
      cmocka_unit_test(a_foreign_loop_serves_both_eras_on_stdio),
      cmocka_unit_test(a_foreign_loop_serves_files),
      cmocka_unit_test(a_foreign_loop_serves_many_peers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
