/* test_client_mcp_threads.c - clients on several threads at once, each with a loop of its own, over every transport and in both eras, against one
 * server that runs on two threads: what they share without saying so is the thread sanitizer's business. */
#include "support/unit.h"

#include <idem/mcp_client.h>
#include <idem/uv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

enum { THREADS = 4, TURNS = 3, CALLS = 8 };

typedef struct asker {
  pthread_t thread;
  const char *url;
  uint32_t revisions;
  uv_loop_t loop;
  int readies, closes, asked, ended, good, progress;
  char trouble[256];
} asker;

static void on_close(idem_mcp_client *client, void *user) {
  (void)client;
  ((asker *)user)->closes++;
}

static void on_progress(idem_mcp_client *client, const idem_mcp_progress *news, void *user) {
  (void)client, (void)news;
  ((asker *)user)->progress++;
}

static void on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  asker *self = user;
  self->ended++;
  self->good += result->status == IDEM_OK && !result->is_error;
  if (self->ended == self->asked) idem_mcp_client_close(client);
}

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  asker *self = user;
  self->readies++;
  if (status != IDEM_OK) {
    snprintf(self->trouble, sizeof self->trouble, "%s", idem_mcp_client_trouble(client).text);
    return;
  }
  const idem_mcp_call_opts opts = {.on_progress = on_progress};
  self->asked = CALLS;
  for (int i = 0; i < CALLS / 2; i++) {
    assert_int_equal(
        idem_mcp_call_tool_json(client, "hello", "{}", 2, &opts, on_result, self, NULL), IDEM_OK);
    assert_int_equal(idem_mcp_list(client, IDEM_MCP_TOOLS, NULL, on_result, self, NULL), IDEM_OK);
  }
}

static void ask_once(asker *self) {
  idem_mcp_client_opts opts = {.revisions = self->revisions, .on_close = on_close, .user = self};
  self->readies = self->closes = self->asked = self->ended = self->good = 0;
  assert_int_equal(uv_loop_init(&self->loop), 0);
  assert_int_equal(idem_mcp_connect(&self->loop, self->url, &opts, on_ready, self, NULL), IDEM_OK);
  uv_run(&self->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&self->loop), 0);
}

static void *ask(void *user) {
  asker *self = user;
  for (int turn = 0; turn < TURNS && !*self->trouble; turn++) {
    ask_once(self);
    if (self->good != CALLS || self->closes != 1)
      snprintf(self->trouble, sizeof self->trouble, "%d of %d well, %d closed", self->good, CALLS,
               self->closes);
  }
  return NULL;
}

/* ------------------------------------------------------------------- the server */

static void hello(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_progress(request, 1, 2, "half");
  idem_tool_text(request, "hello", 5);
}

typedef struct host {
  pthread_t thread;
  uv_loop_t loop;
  uv_async_t end;
  idem_server *server;
  idem_listener *listener;
} host;

static void on_end(uv_async_t *async) {
  host *self = async->data;
  idem_listener_stop(self->listener, NULL, NULL);
  uv_close((uv_handle_t *)async, NULL);
}

static void *serve(void *user) {
  host *self = user;
  uv_run(&self->loop, UV_RUN_DEFAULT);
  return NULL;
}

static void start(host *self, const char *url) {
  idem_server_opts opts = {.name = "own", .version = "1"};
  idem_server_os(&opts);
  assert_int_equal(uv_loop_init(&self->loop), 0);
  assert_int_equal(idem_server_new(&opts, &self->server), IDEM_OK);
  assert_int_equal(
      idem_server_add_tool(self->server, &(idem_tool){.name = "hello", .fn = hello}, NULL, 0),
      IDEM_OK);
  idem_serve_opts how = {.server = self->server};
  assert_int_equal(idem_serve(&self->loop, url, &how, &self->listener), IDEM_OK);
  self->end.data = self;
  assert_int_equal(uv_async_init(&self->loop, &self->end, on_end), 0);
  assert_int_equal(pthread_create(&self->thread, NULL, serve, self), 0);
}

static void stop(host *self) {
  uv_async_send(&self->end);
  pthread_join(self->thread, NULL);
  assert_int_equal(uv_loop_close(&self->loop), 0);
  idem_server_free(self->server);
}

static void ask_from_all(const char *listen) {
  static asker askers[THREADS];
  host server;
  char url[256];
  start(&server, listen);
  snprintf(url, sizeof url, "%s", idem_listener_url(server.listener));
  for (int i = 0; i < THREADS; i++) {
    askers[i] = (asker){.url = url, .revisions = i % 2 ? IDEM_MCP_2025_11_25 : IDEM_MCP_2026_07_28};
    assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(askers[i].thread, NULL);
    if (*askers[i].trouble) fail_msg("%s: %s", url, askers[i].trouble);
    assert_true(askers[i].progress > 0);
  }
  stop(&server);
}

static void clients_of_several_threads_have_nothing_to_do_with_each_other(void **state) {
  (void)state;
  char unix_url[64];
  snprintf(unix_url, sizeof unix_url, "unix:/tmp/idem-mcp-threads-%d.sock", (int)getpid());
  const char *const listens[] = {"tcp://127.0.0.1:0", unix_url, "http://127.0.0.1:0/mcp",
                                 "ws://127.0.0.1:0/mcp"};
  for (size_t i = 0; i < sizeof listens / sizeof *listens; i++) ask_from_all(listens[i]);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(clients_of_several_threads_have_nothing_to_do_with_each_other)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
