/* test_client_once.c - "did it happen?" has an answer: a client calls tools of `idem serve` through a proxy that loses answers, while the
 * server is stopped, killed and started again. Each tool leaves a line for each run; none has two. */
#include "script.h"
#include "serving.h"

#include <idem/mcp_client.h>
#include <idem/uv.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char idem[] = IDEM_BIN_DIR "/idem";

#define WAIT_MS 60000

static const char config[] =
    "{\"tools\":{"
    "\"append\":{\"run\":[\"sh\",\"-c\",\"echo run >>out/runs; echo appended\"],"
    "\"allow\":{\"write\":[\"out\"]}},"
    "\"wait\":{\"run\":[\"sh\",\"-c\",\"echo run >>out/runs; exec sleep 1000\"],"
    "\"allow\":{\"write\":[\"out\"]}}}}";

/* What the proxy does to the first call it sees. */
typedef enum fault {
  LOSE_ANSWER, /* the server has answered */
  CUT_STREAM, /* ... and what comes is a stream that ends before that, in order, with an event to come back for */
  LOSE_AND_RESTART,  /* ... and is killed and started again */
  KILL_WHILE_RUNNING /* the tool has begun */
} fault;

typedef struct world {
  serving files;
  char store[320];
  child server;
  char host[64];
  uv_loop_t loop;
  script *proxy;
  fault fault;
  int seen, resumed;
  uv_timer_t watch;
  idem_mcp_client *client;
  const char *tool;
  int readies, ended, closed;
  unsigned repeats;
  idem_status status;
  int http_status;
  idem_mcp_fate fate;
  bool replayed, no_keys;
  char text[256], key[64];
} world;

/* ------------------------------------------------------------------- the server */

static void start(world *in) {
  char url[128], path[300];
  serving_path(&in->files, "idem.json", path, sizeof path);
  in->server = CHILD(idem, "serve", path, "--http", "127.0.0.1:0", "--store", in->store,
                     "--lease-ms", "1000");
  child_listening(&in->server, url, sizeof url);
  assert_int_equal(sscanf(url, "http://%63[^/]", in->host), 1);
}

static void stop(world *in, int signal) {
  kill(in->server.pid, signal);
  assert_int_equal(child_end(&in->server), signal == SIGKILL ? -SIGKILL : 0);
}

static int runs(const world *in) {
  char path[300], line[64];
  int count = 0;
  serving_path(&in->files, "out/runs", path, sizeof path);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) count++;
  if (file) fclose(file);
  return count;
}

static void await_run(const world *in, int count) {
  uint64_t until = child_now_ms() + WAIT_MS;
  while (runs(in) < count) {
    assert_true(child_now_ms() < until);
    poll(NULL, 0, 5);
  }
}

/* -------------------------------------------------------------------- the proxy */

static int forward(const world *in, const char *request) {
  char url[80];
  const char *rest = strchr(request, '\n') + 1;
  snprintf(url, sizeof url, "tcp://%s", in->host);
  int fd = child_connect(url);
  dprintf(fd, "%.*sConnection: close\r\n", (int)(rest - request), request);
  child_send(fd, rest);
  return fd;
}

static void kill_and_start(world *in) {
  stop(in, SIGKILL);
  start(in);
}

static void on_request(script_conn *conn, const char *request, void *user) {
  world *in = user;
  bool cut = strstr(script_body(request), "\"tools/call\"") && in->seen++ == 0;
  if (strncmp(request, "GET ", 4) == 0) { /* nothing is told outside of calls here */
    in->resumed += *script_header(request, "Last-Event-ID") != 0;
    script_answer(conn, "405 Method Not Allowed", "", "");
    return;
  }
  int fd = forward(in, request);
  if (cut && in->fault == KILL_WHILE_RUNNING)
    await_run(in, 1);
  else if (cut)
    child_rest(fd);
  else
    script_send(conn, child_rest(fd));
  if (cut && in->fault > CUT_STREAM) kill_and_start(in);
  close(fd);
  if (cut && in->fault == CUT_STREAM)
    script_answer(conn, "200 OK", "Content-Type: text/event-stream\r\n",
                  "id: 7\nretry: 1\ndata:\n\n");
  else if (cut)
    script_reset(conn);
  else
    script_close(conn);
}

/* ------------------------------------------------------------------- the client */

static void on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  world *in = user;
  in->ended++;
  in->status = result->status;
  in->fate = result->fate;
  in->http_status = result->http_status;
  in->replayed = result->replayed;
  in->repeats = result->repeats;
  snprintf(in->key, sizeof in->key, "%s", result->key ? result->key : "");
  yyjson_val *text = yyjson_obj_get(yyjson_arr_get_first(result->content), "text");
  snprintf(in->text, sizeof in->text, "%s", text ? yyjson_get_str(text) : "");
  idem_mcp_client_close(client);
}

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  world *in = user;
  in->readies++;
  assert_int_equal(status, IDEM_OK);
  assert_int_equal(strlen(idem_mcp_client_keys(client)), 32);
  assert_int_equal(idem_mcp_call_tool_json(client, in->tool, "{}", 2, NULL, on_result, in, NULL),
                   IDEM_OK);
}

static void on_close(idem_mcp_client *client, void *user) {
  world *in = user;
  (void)client;
  in->closed++;
  script_stop(in->proxy);
  uv_close((uv_handle_t *)&in->watch, NULL);
}

static void on_watch(uv_timer_t *timer) {
  (void)timer;
  fail_msg("the call has not ended");
}

static void call(world *in, idem_revision revision) {
  char url[64];
  assert_int_equal(uv_loop_init(&in->loop), 0);
  uv_timer_init(&in->loop, &in->watch);
  uv_timer_start(&in->watch, on_watch, WAIT_MS, 0);
  in->proxy = script_start(&in->loop, on_request, in);
  snprintf(url, sizeof url, "http://127.0.0.1:%d/mcp", script_port(in->proxy));
  idem_mcp_client_opts opts = {
      .revisions = revision, .no_keys = in->no_keys, .on_close = on_close, .user = in};
  assert_int_equal(idem_mcp_connect(&in->loop, url, &opts, on_ready, in, &in->client), IDEM_OK);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
  assert_int_equal(in->ended, 1);
  assert_int_equal(in->closed, 1);
  assert_int_equal(strlen(in->key), in->no_keys ? 0 : 32);
}

static void set_up(world *in, bool kept, const char *tool, fault wanted) {
  char path[300];
  *in = (world){.tool = tool, .fault = wanted};
  serving_make(&in->files, config);
  serving_path(&in->files, "out", path, sizeof path);
  assert_int_equal(mkdir(path, 0700), 0);
  serving_path(&in->files, "store.db", path, sizeof path);
  snprintf(in->store, sizeof in->store, kept ? "sqlite:%s" : "memory:", path);
  start(in);
}

static void tear_down(world *in) {
  stop(in, SIGTERM);
  child_remove_folder(in->files.folder);
}

static const idem_revision eras[] = {IDEM_MCP_2026_07_28, IDEM_MCP_2025_11_25};
#define EACH_ERA(era)                                                                              \
  for (size_t era = 0; era < sizeof eras / sizeof *eras; era++) /* NOLINT: a name */

/* -------------------------------------------------------------------- promises */

static void an_answer_that_was_lost_is_asked_for_again(void **state) {
  (void)state;
  EACH_ERA(era) {
    world in;
    set_up(&in, false, "append", LOSE_ANSWER);
    call(&in, eras[era]);
    assert_int_equal(in.status, IDEM_OK);
    assert_string_equal(in.text, "appended\n");
    assert_true(in.replayed);
    assert_int_equal(in.repeats, 1);
    assert_int_equal(runs(&in), 1);
    tear_down(&in);
  }
}

/* Without a key nobody asks again, and nobody knows. */
static void without_a_key_its_outcome_is_unknown(void **state) {
  (void)state;
  EACH_ERA(era) {
    world in;
    set_up(&in, false, "append", CUT_STREAM);
    in.no_keys = true;
    call(&in, eras[era]);
    assert_int_equal(in.status, IDEM_E_CLOSED);
    assert_int_equal(in.fate, IDEM_MCP_UNKNOWN);
    assert_int_equal(in.http_status, 200);
    assert_int_equal(runs(&in), 1);
    tear_down(&in);
  }
}

/* What the server says of the GET, which 2026-07-28 does not have, is no answer to the call. */
static void a_stream_that_ended_without_the_answer_is_a_broken_connection(void **state) {
  (void)state;
  EACH_ERA(era) {
    world in;
    set_up(&in, false, "append", CUT_STREAM);
    call(&in, eras[era]);
    assert_int_equal(in.status, IDEM_OK);
    assert_true(in.replayed);
    assert_int_equal(in.repeats, 1);
    assert_int_equal(in.resumed, eras[era] == IDEM_MCP_2026_07_28 ? 0 : 1);
    assert_int_equal(runs(&in), 1);
    tear_down(&in);
  }
}

static void an_answer_that_survives_its_process_is_had_from_the_next(void **state) {
  (void)state;
  EACH_ERA(era) {
    world in;
    set_up(&in, true, "append", LOSE_AND_RESTART);
    call(&in, eras[era]);
    assert_int_equal(in.status, IDEM_OK);
    assert_true(in.replayed);
    assert_int_equal(runs(&in), 1);
    tear_down(&in);
  }
}

/* With the process went the keys: that the next one knows nothing of the call does not mean that it never ran. */
static void a_server_that_lost_its_keys_runs_nothing_twice(void **state) {
  (void)state;
  EACH_ERA(era) {
    world in;
    set_up(&in, false, "append", LOSE_AND_RESTART);
    call(&in, eras[era]);
    assert_int_equal(in.status, IDEM_E_REMOTE);
    assert_int_equal(in.fate, IDEM_MCP_OUTCOME_UNKNOWN);
    assert_int_equal(runs(&in), 1);
    tear_down(&in);
  }
}

static void what_was_broken_off_is_unknown(void **state) {
  world in;
  (void)state;
  set_up(&in, true, "wait", KILL_WHILE_RUNNING);
  call(&in, IDEM_MCP_2026_07_28);
  assert_int_equal(in.fate, IDEM_MCP_OUTCOME_UNKNOWN);
  assert_int_equal(runs(&in), 1);
  tear_down(&in);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  setenv("no_proxy", "*", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_answer_that_was_lost_is_asked_for_again),
      cmocka_unit_test(a_stream_that_ended_without_the_answer_is_a_broken_connection),
      cmocka_unit_test(without_a_key_its_outcome_is_unknown),
      cmocka_unit_test(an_answer_that_survives_its_process_is_had_from_the_next),
      cmocka_unit_test(a_server_that_lost_its_keys_runs_nothing_twice),
      cmocka_unit_test(what_was_broken_off_is_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
