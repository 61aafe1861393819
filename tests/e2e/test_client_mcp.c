/* test_client_mcp.c - idem_mcp_connect over everything it has: to servers of idem's own in each era, and over HTTP to
 * servers of the test's making that lose sessions, speak the oldest transport, want credentials or are cut off. */
#include "script.h"

#include "support/unit.h"

#include <idem/mcp_client.h>
#include <idem/uv.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

#define JSON "Content-Type: application/json\r\n"
#define STREAM "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

typedef struct place {
  uv_loop_t loop;
  uv_timer_t ticker;
  script *server;
  char url[128];
  idem_mcp_client *client;
  int readies, results, closes, lost;
  idem_status ready, result;
  idem_mcp_fate fate;
  idem_revision revision;
  char trouble[256], text[256];
  int http_status;
  /* of the scripted server */
  int initializes, deletes, gets, refusals, discovers;
  char session[32], log[4096];
  script_conn *stream, *held;
  bool lose_session, keep_refusal;
  idem_mcp_refusal *refusal;
  uint64_t handle;
  char watched[16384];
} place;

static void tick(uv_timer_t *timer) { (void)timer; }

static void set_up(place *in, script_fn on_request) {
  *in = (place){0};
  uv_loop_init(&in->loop);
  uv_timer_init(&in->loop, &in->ticker);
  uv_timer_start(&in->ticker, tick, 5, 5);
  if (!on_request) return;
  in->server = script_start(&in->loop, on_request, in);
  snprintf(in->url, sizeof in->url, "http://127.0.0.1:%d/mcp", script_port(in->server));
}

static void wait_for(place *in, const int *count, int wanted) {
  uint64_t until = uv_hrtime() + 60000000000u;
  while (*count < wanted && uv_hrtime() < until) uv_run(&in->loop, UV_RUN_ONCE);
  if (*count < wanted) fail_msg("nothing came; the server was asked:\n%s", in->log);
}

static void tear_down(place *in) {
  if (in->client) idem_mcp_client_close(in->client);
  if (in->client && in->ready == IDEM_OK) wait_for(in, &in->closes, 1);
  if (in->server) script_stop(in->server);
  uv_close((uv_handle_t *)&in->ticker, NULL);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
}

/* ----------------------------------------------------------------- the client */

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  place *in = user;
  in->readies++;
  in->ready = status;
  in->client = status == IDEM_OK ? client : NULL;
  in->revision = idem_mcp_client_revision(client);
  idem_mcp_trouble trouble = idem_mcp_client_trouble(client);
  snprintf(in->trouble, sizeof in->trouble, "%s", trouble.text);
  in->http_status = trouble.http_status;
}

static void on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  place *in = user;
  (void)client;
  in->results++;
  in->result = result->status;
  in->fate = result->fate;
  in->http_status = result->http_status;
  yyjson_val *first = yyjson_arr_get(result->content, 0);
  const char *text = yyjson_get_str(yyjson_obj_get(first, "text"));
  snprintf(in->text, sizeof in->text, "%s", text ? text : result->message ? result->message : "");
}

static void on_close(idem_mcp_client *client, void *user) {
  place *in = user;
  (void)client;
  in->closes++;
  in->client = NULL;
}

static void on_lost(idem_mcp_client *client, const idem_mcp_trouble *trouble, void *user) {
  place *in = user;
  (void)client, (void)trouble;
  in->lost++;
}

static void on_refused(idem_mcp_client *client, idem_mcp_refusal *refusal, void *user) {
  place *in = user;
  (void)client;
  in->refusals++;
  assert_int_equal(idem_mcp_refusal_status(refusal), 401);
  assert_string_equal(idem_mcp_refusal_header(refusal, "www-authenticate", 0), "Bearer x=\"y\"");
  assert_null(idem_mcp_refusal_header(refusal, "www-authenticate", 1));
  assert_int_equal(idem_mcp_refusal_count(refusal), in->refusals);
  if (in->keep_refusal) {
    idem_mcp_refusal_keep(refusal);
    in->refusal = refusal;
    return;
  }
  assert_int_equal(idem_mcp_refusal_retry(refusal, (const char *const[]){"no line", NULL}),
                   IDEM_E_INVAL);
  const char *line =
      in->refusals == 1 ? "Authorization: Bearer wrong" : "Authorization: Bearer right";
  assert_int_equal(idem_mcp_refusal_retry(refusal, (const char *const[]){line, NULL}), IDEM_OK);
}

static void connect_with(place *in, const char *url, idem_mcp_client_opts opts) {
  opts.user = in;
  opts.on_close = on_close;
  opts.on_lost = on_lost;
  assert_int_equal(idem_mcp_connect(&in->loop, url, &opts, on_ready, in, NULL), IDEM_OK);
  wait_for(in, &in->readies, 1);
}

static void call(place *in, const char *tool) {
  int before = in->results;
  assert_int_equal(idem_mcp_call_tool_json(in->client, tool, "{}", 2, NULL, on_result, in, NULL),
                   IDEM_OK);
  wait_for(in, &in->results, before + 1);
}

/* ------------------------------------------------------- idem's own, on any transport */

static void hello(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_progress(request, 1, 2, "half");
  idem_tool_text(request, "hello", 5);
}

static void stopped(void *user) { ++*(int *)user; }

static void ask_own(const char *listen, const char *path, uint32_t served, idem_revision expected) {
  place in;
  set_up(&in, NULL);
  idem_server *server;
  idem_server_opts opts = {.name = "own", .version = "1", .revisions = served};
  idem_server_os(&opts);
  assert_int_equal(idem_server_new(&opts, &server), IDEM_OK);
  assert_int_equal(
      idem_server_add_tool(server, &(idem_tool){.name = "hello", .fn = hello}, NULL, 0), IDEM_OK);
  idem_listener *listener;
  idem_serve_opts serve = {.server = server};
  assert_int_equal(idem_serve(&in.loop, listen, &serve, &listener), IDEM_OK);
  snprintf(in.url, sizeof in.url, "%s%s", idem_listener_url(listener), path);
  connect_with(&in, in.url, (idem_mcp_client_opts){0});
  if (in.ready != IDEM_OK) fail_msg("%s: %s", in.url, in.trouble);
  assert_int_equal(in.revision, expected);
  call(&in, "hello");
  assert_string_equal(in.text, "hello");
  idem_mcp_client_close(in.client);
  wait_for(&in, &in.closes, 1);
  int stops = 0;
  idem_listener_stop(listener, stopped, &stops);
  wait_for(&in, &stops, 1);
  tear_down(&in);
  idem_server_free(server);
}

static void idems_own_servers_are_asked_over_every_transport_in_each_era(void **state) {
  (void)state;
  char unix_url[64];
  snprintf(unix_url, sizeof unix_url, "unix:/tmp/idem-mcp-%d.sock", (int)getpid());
  const char *const listens[] = {"tcp://127.0.0.1:0", unix_url, "http://127.0.0.1:0/mcp",
                                 "ws://127.0.0.1:0/mcp"};
  const idem_revision eras[] = {IDEM_MCP_2026_07_28, IDEM_MCP_2025_11_25, IDEM_MCP_2025_03_26};
  for (size_t i = 0; i < sizeof listens / sizeof *listens; i++) {
    for (size_t k = 0; k < sizeof eras / sizeof *eras; k++)
      ask_own(listens[i], "", eras[k], eras[k]);
  }
}

static void a_program_is_started_asked_and_ended(void **state) {
  (void)state;
  place in;
  set_up(&in, NULL);
  const char *const argv[] = {IDEM_BIN_DIR "/calculator", NULL};
  idem_client_opts wire = {.argv = argv};
  connect_with(&in, "exec:", (idem_mcp_client_opts){.wire = &wire});
  assert_int_equal(in.ready, IDEM_OK);
  assert_int_equal(idem_mcp_call_tool_json(in.client, "calculate",
                                           "{\"a\":1,\"sign\":\"+\",\"b\":2}", 24, NULL, on_result,
                                           &in, NULL),
                   IDEM_OK);
  wait_for(&in, &in.results, 1);
  assert_int_equal(in.result, IDEM_OK);
  tear_down(&in);
}

static void a_program_that_dies_says_how(void **state) {
  (void)state;
  place in;
  set_up(&in, NULL);
  const char *const argv[] = {"/bin/sh", "-c", "echo stray; exit 3", NULL};
  idem_client_opts wire = {.argv = argv};
  connect_with(&in, "exec:", (idem_mcp_client_opts){.wire = &wire});
  assert_int_equal(in.ready, IDEM_E_CLOSED);
  assert_string_equal(in.trouble, "exit status 3");
  tear_down(&in);
}

/* -------------------------------------------------------------- scripted servers */

static void note(place *in, const char *request) {
  size_t len = strlen(in->log), line = strcspn(request, "\r");
  snprintf(in->log + len, sizeof in->log - len, "%.*s %.300s\n", (int)line, request,
           script_body(request));
}

static void answer(script_conn *conn, const char *request, const char *headers,
                   const char *result) {
  char text[1024], id[32] = "0";
  const char *at = strstr(script_body(request), "\"id\":");
  if (at) snprintf(id, sizeof id, "%.*s", (int)strcspn(at + 5, ",}"), at + 5);
  snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, result);
  char head[512];
  snprintf(head, sizeof head, JSON "%s", headers);
  script_answer(conn, "200 OK", head, text);
}

static bool says(const char *request, const char *text) { return strstr(request, text) != NULL; }

static const char initialized[] = "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                                  "\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}";
static const char content[] = "{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}";

/* Sessions, in the older era. */
static void on_session_request(script_conn *conn, const char *request, void *user) {
  place *in = user;
  char header[64];
  note(in, request);
  if (says(request, "GET ")) {
    in->gets++;
    assert_string_equal(script_header(request, "Mcp-Session-Id"), in->session);
    assert_string_equal(script_header(request, "Accept"), "text/event-stream");
    script_answer(conn, "405 Method Not Allowed", "", "");
  } else if (says(request, "DELETE ")) {
    in->deletes++;
    assert_string_equal(script_header(request, "Mcp-Session-Id"), in->session);
    script_answer(conn, "200 OK", "", "");
  } else if (says(request, "\"server/discover\"")) {
    in->discovers++;
    script_answer(conn, "400 Bad Request", "Content-Type: text/plain\r\n", "no session");
  } else if (says(request, "\"initialize\"")) {
    assert_string_equal(script_header(request, "Mcp-Session-Id"), "");
    assert_string_equal(script_header(request, "MCP-Protocol-Version"), "");
    snprintf(in->session, sizeof in->session, "session-%d", ++in->initializes);
    snprintf(header, sizeof header, "Mcp-Session-Id: %s\r\n", in->session);
    answer(conn, request, header, initialized);
  } else if (strcmp(script_header(request, "Mcp-Session-Id"), in->session) != 0 ||
             in->lose_session) {
    in->lose_session = false;
    script_answer(conn, "404 Not Found", "", "");
  } else if (says(request, "notifications/")) {
    assert_string_equal(script_header(request, "MCP-Protocol-Version"), "2025-11-25");
    script_answer(conn, "202 Accepted", "", "");
  } else {
    answer(conn, request, "", content);
  }
}

static void a_lost_session_is_made_anew_once_and_the_call_goes_on(void **state) {
  (void)state;
  place in;
  set_up(&in, on_session_request);
  connect_with(&in, in.url, (idem_mcp_client_opts){0});
  assert_int_equal(in.ready, IDEM_OK);
  call(&in, "t");
  assert_string_equal(in.text, "done");
  assert_int_equal(in.initializes, 1);
  in.lose_session = true;
  call(&in, "t");
  assert_string_equal(in.text, "done");
  assert_int_equal(in.initializes, 2);
  wait_for(&in, &in.gets, 1);
  idem_mcp_client_close(in.client);
  wait_for(&in, &in.closes, 1);
  assert_int_equal(in.deletes, 1);
  assert_int_equal(in.lost, 0);
  tear_down(&in);
}

static void what_is_known_of_a_server_spares_the_probe(void **state) {
  (void)state;
  place in;
  set_up(&in, on_session_request);
  connect_with(&in, in.url, (idem_mcp_client_opts){.known = IDEM_MCP_2025_11_25});
  assert_int_equal(in.ready, IDEM_OK);
  assert_int_equal(in.discovers, 0);
  tear_down(&in);
}

/* The transport of 2024-11-05. */
static void on_old_request(script_conn *conn, const char *request, void *user) {
  place *in = user;
  char event[1024], id[32];
  note(in, request);
  if (says(request, "GET /mcp")) {
    in->stream = conn;
    script_send(conn, STREAM "event: endpoint\ndata: /message?id=7\n\n");
  } else if (!says(request, "POST /message?id=7")) {
    script_answer(conn, "405 Method Not Allowed", "", "");
  } else {
    script_answer(conn, "202 Accepted", "", "Accepted");
    if (says(request, "\"u\"")) return; /* its answer never comes */
    const char *at = strstr(script_body(request), "\"id\":");
    if (!at) return;
    snprintf(id, sizeof id, "%.*s", (int)strcspn(at + 5, ",}"), at + 5);
    snprintf(event, sizeof event,
             "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id,
             says(request, "\"initialize\"")
                 ? "{\"protocolVersion\":\"2024-11-05\",\"capabilities\":{},\"serverInfo\":{"
                   "\"name\":\"o\",\"version\":\"1\"}}"
                 : content);
    script_send(in->stream, event);
  }
}

static void the_oldest_transport_is_fallen_back_to(void **state) {
  (void)state;
  place in;
  set_up(&in, on_old_request);
  connect_with(&in, in.url, (idem_mcp_client_opts){0});
  if (in.ready != IDEM_OK) fail_msg("%s\n%s", in.trouble, in.log);
  assert_int_equal(in.revision, IDEM_MCP_2024_11_05);
  call(&in, "t");
  assert_string_equal(in.text, "done");
  assert_int_equal(idem_mcp_call_tool_json(in.client, "u", NULL, 0, NULL, on_result, &in, NULL),
                   IDEM_OK);
  script_close(in.stream); /* deaf from now on */
  wait_for(&in, &in.results, 2);
  wait_for(&in, &in.closes, 1);
  tear_down(&in);
}

static void on_wall_request(script_conn *conn, const char *request, void *user) {
  note(user, request);
  script_answer(conn, "405 Method Not Allowed", "", "");
}

static void a_server_of_no_transport_is_said_to_be_one(void **state) {
  (void)state;
  place in;
  set_up(&in, on_wall_request);
  connect_with(&in, in.url, (idem_mcp_client_opts){0});
  assert_int_equal(in.ready, IDEM_E_PROTO);
  assert_non_null(strstr(in.trouble, "neither Streamable HTTP nor HTTP+SSE"));
  tear_down(&in);
}

/* The newer era. */
static void on_modern_request(script_conn *conn, const char *request, void *user) {
  place *in = user;
  note(in, request);
  if (strcmp(script_header(request, "Authorization"), "Bearer right") != 0 &&
      says(request, "secret")) {
    script_answer(conn, "401 Unauthorized", "WWW-Authenticate: Bearer x=\"y\"\r\n", "who?");
    return;
  }
  assert_string_equal(script_header(request, "MCP-Protocol-Version"), "2026-07-28");
  if (says(request, "\"server/discover\"")) {
    in->discovers++;
    answer(
        conn, request, "",
        "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{}}");
  } else if (says(request, "\"tools/list\"")) {
    answer(conn, request, "",
           "{\"resultType\":\"complete\",\"tools\":[],\"ttlMs\":0,\"cacheScope\":\"public\"}");
  } else if (says(request, "\"hold\"")) {
    assert_string_equal(script_header(request, "Mcp-Name"), "hold");
    in->held = conn;
    in->gets++;
  } else {
    answer(conn, request, "", content);
  }
}

static void cancelling_closes_the_request_in_the_newer_era(void **state) {
  (void)state;
  place in;
  uint64_t handle;
  set_up(&in, on_modern_request);
  connect_with(&in, in.url, (idem_mcp_client_opts){0});
  assert_int_equal(
      idem_mcp_call_tool_json(in.client, "hold", NULL, 0, NULL, on_result, &in, &handle), IDEM_OK);
  wait_for(&in, &in.gets, 1);
  int open = script_open(in.server);
  assert_int_equal(idem_mcp_cancel(in.client, handle), IDEM_OK);
  assert_int_equal(in.result, IDEM_E_CANCELLED);
  assert_int_equal(in.fate, IDEM_MCP_UNKNOWN);
  uint64_t until = uv_hrtime() + 60000000000u;
  while (script_open(in.server) >= open && uv_hrtime() < until) uv_run(&in.loop, UV_RUN_ONCE);
  assert_true(script_open(in.server) < open);
  assert_null(strstr(in.log, "notifications/cancelled"));
  tear_down(&in);
}

static void a_refused_request_is_repeated_with_other_headers(void **state) {
  (void)state;
  place in;
  set_up(&in, on_modern_request);
  connect_with(&in, in.url, (idem_mcp_client_opts){.on_refused = on_refused});
  call(&in, "secret");
  assert_string_equal(in.text, "done");
  assert_int_equal(in.refusals, 2);
  call(&in, "secret"); /* what was right stays */
  assert_int_equal(in.refusals, 2);
  tear_down(&in);
}

static void on_traffic(idem_mcp_client *client, const idem_mcp_traffic *traffic, void *user) {
  place *in = user;
  (void)client;
  size_t len = strlen(in->watched);
  snprintf(in->watched + len, sizeof in->watched - len, "%c%s %.*s\n",
           traffic->direction == IDEM_OUT ? '>' : '<',
           traffic->kind == IDEM_MCP_TRAFFIC_HEAD ? "head" : "message", (int)traffic->len,
           traffic->data);
}

static void who_watches_sees_heads_and_messages_but_no_credentials(void **state) {
  (void)state;
  place in;
  set_up(&in, on_modern_request);
  const char *const headers[] = {"Cookie: biscuit", "X-Other: shown", NULL};
  idem_client_opts wire = {.headers = headers, .token = "right"};
  connect_with(&in, in.url,
               (idem_mcp_client_opts){
                   .on_traffic = on_traffic, .wire = &wire, .known = IDEM_MCP_2026_07_28});
  call(&in, "secret");
  assert_string_equal(in.text, "done");
  const char *const parts[] = {">head POST http://127.0.0.1:",
                               "Mcp-Method: tools/call\n",
                               "Authorization: ...\n",
                               "Cookie: ...\n",
                               "X-Other: shown\n",
                               ">message {\"jsonrpc\"",
                               "<head HTTP 200 OK\n",
                               "<message {\"jsonrpc\""};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!strstr(in.watched, parts[i])) fail_msg("no %s in %s", parts[i], in.watched);
  }
  assert_null(strstr(in.watched, "Bearer right"));
  assert_null(strstr(in.watched, "biscuit"));
  tear_down(&in);
}

static void on_refused_that_cancels(idem_mcp_client *client, idem_mcp_refusal *refusal,
                                    void *user) {
  place *in = user;
  in->refusals++;
  assert_string_equal(idem_mcp_refusal_url(refusal), in->url);
  assert_int_equal(idem_mcp_cancel(client, in->handle), IDEM_OK);
}

static void a_call_may_be_cancelled_where_its_refusal_is_told(void **state) {
  (void)state;
  place in;
  set_up(&in, on_modern_request);
  connect_with(&in, in.url, (idem_mcp_client_opts){.on_refused = on_refused_that_cancels});
  assert_int_equal(
      idem_mcp_call_tool_json(in.client, "secret", NULL, 0, NULL, on_result, &in, &in.handle),
      IDEM_OK);
  wait_for(&in, &in.results, 1);
  assert_int_equal(in.result, IDEM_E_CANCELLED);
  assert_int_equal(in.refusals, 1);
  tear_down(&in);
}

static void a_kept_refusal_is_decided_later_or_outlives_its_call(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    place in;
    uint64_t handle;
    set_up(&in, on_modern_request);
    connect_with(&in, in.url, (idem_mcp_client_opts){.on_refused = on_refused});
    in.keep_refusal = true;
    assert_int_equal(
        idem_mcp_call_tool_json(in.client, "secret", NULL, 0, NULL, on_result, &in, &handle),
        IDEM_OK);
    wait_for(&in, &in.refusals, 1);
    for (int i = 0; i < 5; i++) uv_run(&in.loop, UV_RUN_ONCE);
    assert_int_equal(in.results, 0);
    if (which == 1) {
      assert_int_equal(idem_mcp_cancel(in.client, handle), IDEM_OK);
      for (int i = 0; i < 5; i++) uv_run(&in.loop, UV_RUN_ONCE);
    }
    if (which == 2)
      idem_mcp_refusal_give_up(in.refusal);
    else
      idem_mcp_refusal_retry(in.refusal,
                             (const char *const[]){"Authorization: Bearer right", NULL});
    wait_for(&in, &in.results, 1);
    const idem_status expected[] = {IDEM_OK, IDEM_E_CANCELLED, IDEM_E_REMOTE};
    assert_int_equal(in.result, expected[which]);
    if (which == 2) assert_int_equal(in.http_status, 401);
    tear_down(&in);
  }
}

static void credentials_are_no_question_of_eras(void **state) {
  (void)state;
  place in;
  set_up(&in, on_modern_request);
  strcat(in.url, "?secret");
  connect_with(&in, in.url, (idem_mcp_client_opts){0});
  assert_int_equal(in.ready, IDEM_E_REMOTE);
  assert_int_equal(in.http_status, 401);
  assert_null(strstr(in.log, "\"initialize\""));
  tear_down(&in);
}

static void a_client_that_knows_asks_its_question_first(void **state) {
  (void)state;
  place in;
  set_up(&in, on_modern_request);
  connect_with(&in, in.url, (idem_mcp_client_opts){.known = IDEM_MCP_2026_07_28, .at_once = true});
  static const char tools[] = "{\"tools\":[]}";
  assert_int_equal(idem_mcp_client_learn_tools(in.client, tools, sizeof tools - 1, 0), IDEM_OK);
  call(&in, "t");
  assert_string_equal(in.text, "done");
  assert_int_equal(in.discovers, 0);
  assert_null(strstr(in.log, "tools/list"));
  tear_down(&in);
}

static void nobody_there_is_said_at_once_and_nothing_was_sent(void **state) {
  (void)state;
  place in;
  set_up(&in, NULL);
  connect_with(&in, "http://127.0.0.1:1/mcp", (idem_mcp_client_opts){0});
  assert_int_equal(in.ready, IDEM_E_SYS);
  tear_down(&in);
}

static void closing_before_it_is_ready_is_told(void **state) {
  (void)state;
  place in;
  set_up(&in, on_modern_request);
  idem_mcp_client *client;
  assert_int_equal(idem_mcp_connect(&in.loop, in.url, NULL, on_ready, &in, &client), IDEM_OK);
  idem_mcp_client_close(client);
  wait_for(&in, &in.readies, 1);
  assert_int_equal(in.ready, IDEM_E_CANCELLED);
  tear_down(&in);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN); /* the servers of the test write to whoever has gone */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(idems_own_servers_are_asked_over_every_transport_in_each_era),
      cmocka_unit_test(a_program_is_started_asked_and_ended),
      cmocka_unit_test(a_program_that_dies_says_how),
      cmocka_unit_test(a_lost_session_is_made_anew_once_and_the_call_goes_on),
      cmocka_unit_test(what_is_known_of_a_server_spares_the_probe),
      cmocka_unit_test(the_oldest_transport_is_fallen_back_to),
      cmocka_unit_test(a_server_of_no_transport_is_said_to_be_one),
      cmocka_unit_test(cancelling_closes_the_request_in_the_newer_era),
      cmocka_unit_test(a_refused_request_is_repeated_with_other_headers),
      cmocka_unit_test(who_watches_sees_heads_and_messages_but_no_credentials),
      cmocka_unit_test(a_call_may_be_cancelled_where_its_refusal_is_told),
      cmocka_unit_test(a_kept_refusal_is_decided_later_or_outlives_its_call),
      cmocka_unit_test(credentials_are_no_question_of_eras),
      cmocka_unit_test(a_client_that_knows_asks_its_question_first),
      cmocka_unit_test(nobody_there_is_said_at_once_and_nothing_was_sent),
      cmocka_unit_test(closing_before_it_is_ready_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
