/* mcp_web.c - see mcp_web.h. */
#include "support/mcp_web.h"
#include "support/ws_frame.h"

#include <stdio.h>
#include <stdlib.h>

static void on_wake(idem__mcp_worker *server, void *user) {
  (void)server;
  atomic_store(&((mcp_web *)user)->woken, true);
}

static uint64_t clock_ns(void *ctx) { return ((mcp_web *)ctx)->now_ms * 1000000u; }

/* Those whose stores answer later, on one thread: all of these stores go on while a test waits. */
static mcp_web *machines;

/* Each server asks a store of its own that answers later, around one that they may share. */
static void make_later(mcp_web *web, const mcp_web_opts *opts) {
  const char *seed = getenv("IDEM_LATER_STORE");
  later_store_opts later = {.seed = seed ? strtoull(seed, NULL, 10) : 0};
  if (opts->later) later = *opts->later;
  if (!opts->later && !seed) return;
  idem_server *server = web->own.server;
  web->later = later_store_new(idem__store_ref(server->store), &later);
  assert_non_null(web->later);
  assert_int_equal(idem__server_use_store(server, web->later), IDEM_OK);
  web->next = machines;
  machines = web;
}

int mcp_web_forget(void **state) {
  (void)state;
  machines = NULL;
  return 0;
}

static void leave_machines(mcp_web *web) {
  mcp_web **at = &machines;
  while (*at && *at != web) at = &(*at)->next;
  if (*at) *at = web->next;
}

static void make_fixture(mcp_web *web, const mcp_web_opts *opts) {
  web->fixture = opts->fixture ? opts->fixture : &web->own;
  web->own_fixture = !opts->fixture;
  if (opts->fixture) return;
  assert_int_equal(mcp_fixture_open(&web->own, &opts->server), IDEM_OK);
  if (opts->store) assert_int_equal(idem__server_use_store(web->own.server, opts->store), IDEM_OK);
  make_later(web, opts);
}

static void make_endpoint(mcp_web *web, const mcp_web_opts *opts) {
  idem__session_table_opts table = opts->table;
  table.server = web->fixture->server;
  web->table = opts->shared;
  web->own_table = !opts->shared;
  if (!web->table) assert_int_equal(idem__session_table_new(&table, &web->table), IDEM_OK);
  idem__mcp_endpoint_opts endpoint = {.table = web->table, .worker = web->mcp};
  endpoint.rpc.now_ns = clock_ns;
  endpoint.rpc.clock_ctx = web;
  endpoint.rpc.limiter = opts->limiter;
  endpoint.rpc.log = opts->log;
  if (opts->http) endpoint.rpc.stream_ms = opts->http->stream_ms;
  assert_int_equal(idem__mcp_endpoint_new(&endpoint, &web->endpoint), IDEM_OK);
}

void mcp_web_open(mcp_web *web, const mcp_web_opts *opts) {
  *web = (mcp_web){.now_ms = 1000};
  make_fixture(web, opts);
  assert_int_equal(idem__worker_new(web->fixture->server, on_wake, web, &web->mcp), IDEM_OK);
  make_endpoint(web, opts);
  idem__http_server_opts server = {.http = opts->http,
                                   .judge = opts->judge,
                                   .stays = opts->stays,
                                   .judge_user = opts->judge_user,
                                   .log = opts->log};
  server.port = 80;
  server.loopback = true;
  assert_int_equal(idem__http_server_new(&server, &web->server), IDEM_OK);
  assert_int_equal(idem__mcp_endpoint_add(web->endpoint, web->server, "/mcp", false, true),
                   IDEM_OK);
  assert_int_equal(idem__mcp_endpoint_add_sse(web->endpoint, web->server, "/sse"), IDEM_OK);
}

void mcp_web_close(mcp_web *web) {
  idem__http_server_free(web->server);
  idem__mcp_endpoint_free(web->endpoint);
  if (web->own_table) idem__session_table_free(web->table);
  idem__worker_free(web->mcp);
  if (web->own_fixture) mcp_fixture_close(&web->own);
  leave_machines(web);
  idem__store_unref(web->later);
}

idem__store *mcp_web_store(void) {
  idem__store *store;
  idem__store_memory_opts opts = {.seed = 5};
  assert_int_equal(idem__store_memory_new(&opts, &store), IDEM_OK);
  return store;
}

void mcp_web_pair_open(mcp_web_pair *both) {
  both->store = mcp_web_store();
  mcp_web_open(&both->first, &(mcp_web_opts){.store = both->store});
  mcp_web_open(&both->second, &(mcp_web_opts){.store = both->store});
}

void mcp_web_pair_close(mcp_web_pair *both) {
  mcp_web_close(&both->second);
  mcp_web_close(&both->first);
  idem__store_unref(both->store);
}

/* One step of the server, or of a store that it or another machine waits for. */
static bool go_on(mcp_web *web) {
  bool more = atomic_exchange(&web->woken, false);
  if (more) idem__worker_deliver(web->mcp);
  for (mcp_web *at = machines; at; at = at->next) more = later_store_pump(at->later) || more;
  return more;
}

void mcp_web_deliver(mcp_web *web) {
  bool due = true;
  while (due) {
    while (go_on(web)) {
    }
    due = idem__worker_deadline(web->mcp) <= web->now_ms;
    if (due) idem__worker_expire(web->mcp, web->now_ms);
  }
}

/* -------------------------------------------------------------- connections */

void mcp_web_connect(mcp_web *web, mcp_web_conn *conn) {
  *conn = (mcp_web_conn){.web = web, .output = calloc(1, 1)};
  idem__http_conn_opts opts = {.server = web->server, .peer = "test", .now_ms = web->now_ms};
  assert_non_null(conn->output);
  assert_int_equal(idem__http_conn_new(&opts, &conn->conn), IDEM_OK);
}

void mcp_web_disconnect(mcp_web_conn *conn) {
  idem__http_conn_free(conn->conn);
  free(conn->output);
}

static void collect(mcp_web_conn *conn) {
  idem_http_chunk chunk;
  while (idem__http_conn_next_chunk(conn->conn, &chunk)) {
    conn->output = realloc(conn->output, conn->len + chunk.len + 1);
    assert_non_null(conn->output);
    memcpy(conn->output + conn->len, chunk.data, chunk.len);
    conn->len += chunk.len;
    conn->output[conn->len] = '\0';
    idem__http_chunk_free(conn->conn, &chunk, conn->web->now_ms);
  }
}

void mcp_web_settle(mcp_web_conn *conn) {
  mcp_web *web = conn->web;
  for (bool more = true; more;) {
    size_t before = conn->len;
    mcp_web_deliver(web);
    bool due = idem__http_conn_deadline(conn->conn) <= web->now_ms;
    if (due) assert_int_equal(idem__http_conn_expire(conn->conn, web->now_ms), IDEM_OK);
    collect(conn);
    more = due || conn->len > before; /* who has read may be told more */
  }
}

void mcp_web_send(mcp_web_conn *conn, const char *method, const char *target, const char *headers,
                  const char *body) {
  size_t room = strlen(target) + strlen(headers) + (body ? strlen(body) : 0) + 256;
  char *text = malloc(room), about_body[96] = "";
  assert_non_null(text);
  if (body) {
    snprintf(about_body, sizeof about_body,
             "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
  }
  static const char both[] = "Accept: application/json, text/event-stream\r\n";
  int len =
      snprintf(text, room, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s\r\n%s", method, target,
               strstr(headers, "Accept: ") ? "" : both, headers, about_body, body ? body : "");
  assert_int_equal(idem__http_conn_feed(conn->conn, text, (size_t)len, conn->web->now_ms), IDEM_OK);
  free(text);
  mcp_web_settle(conn);
}

size_t mcp_web_times(const mcp_web_conn *conn, const char *text) {
  size_t count = 0;
  for (const char *at = conn->output; (at = strstr(at, text)); at++) count++;
  return count;
}

char *mcp_web_ask(mcp_web *web, const char *method, const char *target, const char *headers,
                  const char *body) {
  mcp_web_conn conn;
  mcp_web_connect(web, &conn);
  mcp_web_send(&conn, method, target, headers, body);
  char *output = conn.output;
  idem__http_conn_free(conn.conn);
  return output;
}

void mcp_web_expect(char *answer, const char *text) {
  if (!strstr(answer, text)) fail_msg("no %s in:\n%s", text, answer);
  free(answer);
}

void mcp_web_session(char *answer, char line[64]) {
  const char *at = strstr(answer, "Mcp-Session-Id: ");
  if (!at) fail_msg("no session in:\n%s", answer);
  snprintf(line, 64, "%.*s\r\n", (int)strcspn(at, "\r"), at);
  free(answer);
}

void mcp_web_hello(mcp_web *web, const char *headers, char line[64]) {
  mcp_web_session(mcp_web_ask(web, "POST", "/mcp", headers,
                              "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                              "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                              "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"),
                  line);
}

void mcp_web_open_sse(mcp_web_conn *conn, const char *headers, char target[128]) {
  static const char mark[] = "event: endpoint\ndata: ";
  mcp_web_send(conn, "GET", "/sse", headers, NULL);
  const char *at = strstr(conn->output, mark);
  if (!at) fail_msg("no endpoint in:\n%s", conn->output);
  at += sizeof mark - 1;
  snprintf(target, 128, "%.*s", (int)strcspn(at, "\n"), at);
}

void mcp_web_upgrade(mcp_web_conn *conn, const char *headers) {
  char all[512];
  snprintf(all, sizeof all,
           "%sUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
           headers);
  mcp_web_send(conn, "GET", "/mcp", all, NULL);
  assert_non_null(strstr(conn->output, "101 Switching Protocols"));
}

void mcp_web_send_text(mcp_web_conn *conn, const char *text) {
  char bytes[1024];
  assert_true(strlen(text) < sizeof bytes - 16);
  size_t len = frame(bytes, FIN | TEXT, text, strlen(text), true);
  assert_int_equal(idem__http_conn_feed(conn->conn, bytes, len, conn->web->now_ms), IDEM_OK);
  mcp_web_settle(conn);
}
