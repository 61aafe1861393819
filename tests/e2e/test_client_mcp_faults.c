/* test_client_mcp_faults.c - idem_mcp_connect without memory, over each kind of address and in both eras. Each allocation of a conversation fails in
 * turn, once and for good: on_ready runs once or the call failed itself, what was asked ends once, a client that was ready is over
 * once, nothing leaks. Lines and HTTP without I/O are swept by the transcripts (tests/transcripts/client_*.txt). */
#include "certificate.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/mcp_client.h>
#include <idem/uv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define WAIT_MS 60000

typedef struct place {
  const char *url;
  uint32_t revisions;
  const char *const *argv;
} place;

typedef struct world {
  const place *at;
  const fault_alloc *fault;
  uv_loop_t loop;
  uv_timer_t watch;
  idem_status ready;
  int readies, closes, asked, ended, good;
  uint64_t listening;
} world;

static void on_watch(uv_timer_t *timer) {
  const world *in = timer->data;
  fail_msg("%s, allocation %zu of %zu failing: %d ready, %d asked, %d ended, %d closed",
           in->at->url, in->fault->fail_at, in->fault->calls, in->readies, in->asked, in->ended,
           in->closes);
}

static void on_close(idem_mcp_client *client, void *user) {
  (void)client;
  ((world *)user)->closes++;
}

static void on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  world *in = user;
  in->ended++;
  in->good += result->status == IDEM_OK;
  if (in->ended == in->asked - 1 && in->listening) (void)idem_mcp_cancel(client, in->listening);
  if (in->ended == in->asked) idem_mcp_client_close(client);
}

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  world *in = user;
  in->readies++;
  in->ready = status;
  if (status != IDEM_OK) {
    assert_non_null(idem_mcp_client_trouble(client).text);
    return;
  }
  static const char echo[] = "{\"text\":\"x\"}";
  const idem_mcp_listening wishes = {.tools = true};
  in->asked += idem_mcp_call_tool_json(client, "echo", echo, sizeof echo - 1, NULL, on_result, in,
                                       NULL) == IDEM_OK;
  in->asked += idem_mcp_list(client, IDEM_MCP_TOOLS, NULL, on_result, in, NULL) == IDEM_OK;
  in->asked += idem_mcp_listen(client, &wishes, NULL, on_result, in, &in->listening) == IDEM_OK;
  if (!in->asked || (in->asked == 1 && in->listening)) idem_mcp_client_close(client);
}

static void open_world(world *in, const place *at) {
  *in = (world){.at = at};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  uv_timer_init(&in->loop, &in->watch);
  in->watch.data = in;
  uv_timer_start(&in->watch, on_watch, WAIT_MS, 0);
  uv_unref((uv_handle_t *)&in->watch);
}

static void close_world(world *in) {
  uv_run(&in->loop, UV_RUN_DEFAULT);
  uv_close((uv_handle_t *)&in->watch, NULL);
  assert_int_equal(uv_run(&in->loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&in->loop), 0);
}

static void converse(fault_alloc *fault, void *user) {
  static world in;
  const place *at = user;
  const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
  idem_client_opts wire = {.ca_file = cert,
                           .token = "secret",
                           .argv = at->argv,
                           .environment = at->argv ? environment : NULL,
                           .folder = at->argv ? "/" : NULL,
                           .exit_ms = 1000};
  idem_mcp_client_opts opts = {.alloc = &fault->alloc,
                               .wire = &wire,
                               .revisions = at->revisions,
                               .on_close = on_close,
                               .user = &in};
  open_world(&in, at);
  in.fault = fault;
  idem_status status = idem_mcp_connect(&in.loop, at->url, &opts, on_ready, &in, NULL);
  assert_true(status == IDEM_OK || fault->failures > 0);
  close_world(&in);
  assert_int_equal(in.readies, status == IDEM_OK);
  assert_int_equal(in.ended, in.asked);
  assert_int_equal(in.closes, in.readies && in.ready == IDEM_OK);
  assert_true(waitpid(-1, NULL, WNOHANG) <= 0); /* no program waits for us */
  if (fault->failures == 0) assert_true(in.good >= 2);
}

static void sweep(const place *at) {
  size_t once = fault_alloc_sweep(converse, (void *)(uintptr_t)at, 2000);
  size_t for_good = fault_alloc_sweep_ever_after(converse, (void *)(uintptr_t)at, 2000);
  print_message("  %s: %zu and %zu failures survived\n", at->url, once, for_good);
  assert_true(once > 30 && for_good > 30);
}

static void a_client_without_memory_ends_what_it_began(void **state) {
  (void)state;
  enum { URLS = 5 };
  char urls[URLS][128];
  child server = CHILD(REFERENCE, "--profile", "mcp", "--http", "127.0.0.1:0", "--ws",
                       "127.0.0.1:0", "--https", "127.0.0.1:0", "--tls", "127.0.0.1:0", "--tcp",
                       "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key);
  for (int i = 0; i < URLS; i++) {
    child_listening(&server, urls[i], sizeof urls[i]);
    for (int era = 0; era < 2; era++) {
      bool secure = strncmp(urls[i], "https", 5) == 0 || strncmp(urls[i], "tls", 3) == 0;
      if (secure && era) continue; /* the same bytes in a wrapping that knows no eras */
      place at = {.url = urls[i], .revisions = era ? IDEM_MCP_2025_11_25 : IDEM_MCP_2026_07_28};
      sweep(&at);
    }
  }
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
}

/* Programs that answer a line with a line. The second goes at server/discover and is started again. */
#define ANSWER(what, result)                                                                       \
  "*" what "*) echo '{\"jsonrpc\":\"2.0\",\"id\":'\"$id\"',\"result\":" result "}';; "
#define LOOP(first)                                                                                \
  "while read -r l; do id=${l#*\\\"id\\\":}; id=${id%%,*}; case $l in " first ANSWER(              \
      "tools/call", "{\"content\":[]}")                                                            \
      ANSWER("tools/list", "{\"tools\":[]}") "esac; done; echo bye >&2"
static const char modern_script[] = LOOP(
    ANSWER("discover", "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"]}"));
static const char legacy_script[] =
    LOOP("*discover*) echo oops >&2; exit 3;; *initialized*) ;; " ANSWER(
        "initialize", "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}"));
static const char *const modern_program[] = {"/bin/sh", "-c", modern_script, NULL};
static const char *const legacy_program[] = {"/bin/sh", "-c", legacy_script, NULL};

static void a_program_without_memory_is_ended_too(void **state) {
  (void)state;
  const place modern = {.url = "exec:", .argv = modern_program};
  const place legacy = {.url = "exec:", .argv = legacy_program};
  sweep(&modern);
  sweep(&legacy);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  setenv("no_proxy", "*", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_client_without_memory_ends_what_it_began),
      cmocka_unit_test(a_program_without_memory_is_ended_too),
  };
  return cmocka_run_group_tests(tests, certificate_set_up, certificate_tear_down);
}
