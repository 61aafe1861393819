/* test_task_lock.c - the tasks' lock is every worker's: nobody holds it while something large is written.
 * Whoever writes much asks for much memory, and each time somebody else tries to take the lock. */
#include "mcp_server/server.h"
#include "mcp_server/task.h"
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TASK "\"taskId\":\"07070707070707070707070707070707\""
#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{},\"extensions\":{"            \
  "\"io.modelcontextprotocol/tasks\":{}}}}"
#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2025-11-25\",\"capabilities\":{\"elicitation\":{}},"                                          \
  "\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n"

enum { MUCH = 100000, LARGE = 200000, PATIENCE_MS = 60000 };

/* ------------------------------------------------------------- who watches */

static struct {
  idem_server *server; /* NULL: nobody watches */
  size_t looked;
  size_t held;
} watch;

static void *take_lock(void *user) {
  idem_server *server = watch.server;
  idem__tasks_lock(server);
  idem__tasks_unlock(server);
  atomic_store((_Atomic bool *)user, true);
  return NULL;
}

/* One that cannot have it ends when it can, which is after this. */
static void look(void) {
  static _Atomic bool had;
  pthread_t other;
  if (watch.held) return;
  atomic_store(&had, false);
  watch.looked++;
  assert_int_equal(pthread_create(&other, NULL, take_lock, &had), 0);
  for (int waited = 0; waited < PATIENCE_MS && !atomic_load(&had); waited++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  watch.held += !atomic_load(&had);
  if (watch.held)
    pthread_detach(other);
  else
    pthread_join(other, NULL);
}

static void *watched_malloc(void *ctx, size_t size) {
  (void)ctx;
  if (watch.server && size >= MUCH) look();
  return malloc(size);
}

static void *watched_realloc(void *ctx, void *ptr, size_t old_size, size_t size) {
  (void)ctx, (void)old_size;
  if (watch.server && size >= MUCH) look();
  return realloc(ptr, size);
}

static void watched_free(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

static const idem_alloc watched = {watched_malloc, watched_realloc, watched_free, NULL};

/* ----------------------------------------------------------------- a server */

/* Asks for something long, and says it back, or errs with it. */
static void echo(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  static const idem_ask ask = {.key = "k", .kind = IDEM_ASK_FORM, .message = "What?"};
  yyjson_val *answer = idem_answer_to(request, "k");
  if (!answer) {
    idem_needs_input(request, &ask, 1, NULL, 0);
    return;
  }
  yyjson_val *text = yyjson_obj_get(yyjson_obj_get(answer, "content"), "x");
  if (user)
    idem_reply_error_text(request, 404, "No", yyjson_get_str(text));
  else
    idem_tool_text(request, yyjson_get_str(text), yyjson_get_len(text));
}

static idem_server *new_server(bool errs) {
  watch.server = NULL;
  idem_server *server = mcp_test_server(&(idem_server_opts){.alloc = &watched});
  idem_tool tool = {
      .name = "t", .task = IDEM_TASK_OPTIONAL, .fn = echo, .user = errs ? &watch : NULL};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  return server;
}

static void expect(mcp_peer *peer, const char *line, const char *part) {
  assert_int_equal(idem_conn_feed(peer->conn, line, strlen(line)), IDEM_OK);
  const char *got = mcp_peer_more(peer);
  if (!strstr(got, part)) fail_msg("no %s in %.300s", part, got);
}

static void expect_of_task(mcp_peer *peer, const char *method, const char *members,
                           const char *part) {
  char line[512];
  snprintf(line, sizeof line,
           "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"%s\",\"params\":{" TASK "%s}}\n", method,
           members);
  expect(peer, line, part);
}

/* `head`, an answer of LARGE letters, `tail`. */
static char *long_line(const char *head, const char *tail) {
  size_t room = LARGE + strlen(head) + strlen(tail) + 128;
  char *line = malloc(room), *xs = malloc(LARGE + 1);
  assert_true(line && xs);
  memset(xs, 'x', LARGE);
  xs[LARGE] = '\0';
  snprintf(line, room, "%s{\"action\":\"accept\",\"content\":{\"x\":\"%s\"}}%s", head, xs, tail);
  free(xs);
  return line;
}

static void begin_watching(idem_server *server) {
  watch.looked = watch.held = 0;
  watch.server = server;
}

static void end_watching(void) {
  watch.server = NULL;
  assert_true(watch.looked >= 3);
  assert_int_equal(watch.held, 0);
}

/* ------------------------------------------------------------------- tests */

static void no_answer_and_no_outcome_is_written_under_the_lock(void **state) {
  (void)state;
  mcp_peer peer;
  idem_server *server = new_server(false);
  char *update =
      long_line("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tasks/update\",\"params\":{" TASK
                ",\"inputResponses\":{\"k\":",
                "}," META "}}\n");
  mcp_peer_open(&peer, server, "2026-07-28");
  expect(&peer,
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"," META
         "}}\n",
         TASK);
  begin_watching(server);
  expect(&peer, update, "\"result\":");
  end_watching();
  begin_watching(server);
  for (int i = 0; i < 3; i++) expect_of_task(&peer, "tasks/get", "," META, "xxxx");
  end_watching();
  free(update);
  mcp_peer_close_with(&peer, server);
}

/* 2025-11-25: the answer is a response, and whoever waits in tasks/result gets what came of it. */
static void ask_the_old_way(bool errs, const char *part) {
  mcp_peer peer;
  idem_server *server = new_server(errs);
  char *response = long_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":", "}\n");
  mcp_peer_open(&peer, server, "2026-07-28");
  expect(&peer, HELLO, "\"2025-11-25\"");
  expect(&peer, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n", "");
  expect(&peer,
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\","
         "\"task\":{}}}\n",
         TASK);
  expect_of_task(&peer, "tasks/result", "", "\"id\":1,\"method\":\"elicitation/create\"");
  begin_watching(server);
  expect(&peer, response, part);
  end_watching();
  begin_watching(server);
  for (int i = 0; i < 3; i++) expect_of_task(&peer, "tasks/result", "", part);
  end_watching();
  free(response);
  mcp_peer_close_with(&peer, server);
}

static void no_response_and_no_result_is_written_under_the_lock(void **state) {
  (void)state;
  ask_the_old_way(false, "xxxx");
  ask_the_old_way(true, "xxxx");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_answer_and_no_outcome_is_written_under_the_lock),
      cmocka_unit_test(no_response_and_no_result_is_written_under_the_lock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
