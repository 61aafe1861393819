/* fuzz_mcp_server.c - a whole server, driven by a script of bytes: sessions of
 * every era over POST, event streams, WebSockets and lines; calls, tasks and
 * questions that are answered or not; cancellations, DELETE, time, connections
 * that go, and the end of it all at any step. What is promised: nothing is
 * touched that has gone, nothing leaks, no request has two answers, a POST
 * whose connection stays has one with its id when the server stops, no handler
 * runs when it is going, and no work is left in flight. */
#include "../tests/support/mcp_fixture.h"
#include "../tests/support/ws_frame.h"
#include "http_fuzz.h"

#include "mcp_http/mcp_http.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CAPABILITIES                                                                               \
  "{\"elicitation\":{\"form\":{},\"url\":{}},\"sampling\":{},\"roots\":{},"                        \
  "\"extensions\":{"                                                                               \
  "\"io.modelcontextprotocol/tasks\":{}}}"
#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":" CAPABILITIES "}"

enum { LINES = 6, KEPT = 16, SESSIONS = 3, TASKS = 4, ASKED = 512 };

/* A connection: HTTP of any kind, or a line of the engine's own. */
typedef struct line {
  idem_http_conn *http;
  idem_conn *conn;
  http_fuzz_output out;
  char target[96]; /* where a stream of 2024-11-05 wants its posts */
  bool websocket;
  unsigned asked; /* the id of the POST it waits for; 0: none */
} line;

typedef struct world {
  const uint8_t *at, *end;
  mcp_fixture fixture;
  idem__mcp_worker *mcp;
  idem__session_table *table;
  idem__mcp_endpoint *endpoint;
  idem_http_server *server;
  uint64_t now_ms;
  bool woken, ended;
  line lines[LINES];
  char sessions[SESSIONS][64], tasks[TASKS][33];
  idem_request *kept[KEPT];
  size_t kept_count;
  unsigned next_id;
  uint8_t answers[ASKED]; /* by id: how many came */
  bool cancelled[ASKED];  /* such a request need not be answered */
} world;

static unsigned take(world *w) { return w->at < w->end ? *w->at++ : 0; }

/* ----------------------------------------------------------------- handlers */

static void forget(world *w, const idem_request *request) {
  for (size_t i = 0; i < w->kept_count; i++)
    if (w->kept[i] == request) w->kept[i--] = w->kept[--w->kept_count];
}

static void look(idem_request *request) {
  (void)idem_can_ask(request, IDEM_ASK_FORM);
  (void)yyjson_obj_size(idem_peer_info(request));
  (void)yyjson_obj_size(idem_peer_capabilities(request));
  (void)strlen(idem_principal(request));
  idem_progress(request, 1, 2, "on");
  idem_mcp_log(request, IDEM_MCP_ERROR, "l", "text");
  idem_task_status(request, "status");
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  world *w = user;
  (void)reason;
  look(request);
  unsigned choice = w->ended ? 0 : take(w) % 3;
  if (choice == 2) return; /* goes on all the same */
  forget(w, request);
  if (choice == 1)
    idem_needs_input(request, &(idem_ask){.key = "r", .kind = IDEM_ASK_ROOTS}, 1, NULL, 0);
  else
    idem_request_drop(request);
}

static void keep(idem_request *request, void *user) {
  world *w = user;
  MUST(!w->ended);
  look(request);
  if (w->kept_count == KEPT) {
    idem_request_drop(request);
    return;
  }
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, w);
  w->kept[w->kept_count++] = request;
}

/* Asks until it has an answer; never when all has ended. */
static void tool_insist(idem_request *request, yyjson_val *arguments, void *user) {
  const world *w = user;
  (void)arguments;
  MUST(!w->ended);
  look(request);
  if (idem_answer_to(request, "r"))
    idem_tool_text(request, "ok", 2);
  else
    idem_needs_input(request, &(idem_ask){.key = "r", .kind = IDEM_ASK_ROOTS}, 1, "s", 1);
}

static void act_on_kept(world *w, unsigned what) {
  if (!w->kept_count) return;
  idem_request *request = w->kept[what % w->kept_count];
  forget(w, request);
  look(request);
  switch (what % 4) {
  case 0: idem_tool_failed(request, "failed"); break;
  case 1:
    idem_needs_input(request, &(idem_ask){.key = "r", .kind = IDEM_ASK_ROOTS}, 1, NULL, 0);
    break;
  case 2: idem_request_drop(request); break;
  default: idem_tool_text(request, "text", 4);
  }
}

/* -------------------------------------------------------------------- world */

static void on_wake(idem__mcp_worker *worker, void *user) {
  (void)worker;
  ((world *)user)->woken = true;
}

static uint64_t clock_ns(void *ctx) { return ((world *)ctx)->now_ms * 1000000u; }

static void open_world(world *w) {
  idem_server_opts server = {.max_tasks = 6, .input_ms = 20000, .task_ttl_ms = 60000};
  MUST(mcp_fixture_open(&w->fixture, &server) == IDEM_OK);
  w->fixture.keep = keep;
  w->fixture.user = w;
  w->now_ms = 1000;
  w->next_id = 1;
  idem_tool tool = {.name = "insist", .fn = tool_insist, .user = w, .task = IDEM_TASK_OPTIONAL};
  MUST(idem_server_add_tool(w->fixture.server, &tool, NULL, 0) == IDEM_OK);
  MUST(idem__worker_new(w->fixture.server, on_wake, w, &w->mcp) == IDEM_OK);
  idem__session_table_opts table = {
      .server = w->fixture.server, .max_sessions = 2, .session_idle_ms = 30000};
  MUST(idem__session_table_new(&table, &w->table) == IDEM_OK);
  idem__mcp_endpoint_opts endpoint = {.table = w->table, .worker = w->mcp};
  endpoint.rpc.now_ns = clock_ns;
  endpoint.rpc.clock_ctx = w;
  MUST(idem__mcp_endpoint_new(&endpoint, &w->endpoint) == IDEM_OK);
  idem__router_limit_work(w->fixture.server->router, 24, 20, 8);
  static const idem_http_opts http = {0};
  idem__http_server_opts opts = {.http = &http, .port = 80, .loopback = true};
  MUST(idem__http_server_new(&opts, &w->server) == IDEM_OK);
  MUST(idem__mcp_endpoint_add(w->endpoint, w->server, "/mcp", false, false) == IDEM_OK);
  MUST(idem__mcp_endpoint_add_sse(w->endpoint, w->server, "/sse") == IDEM_OK);
}

/* ------------------------------------------------------------------ reading */

/* Counts the answers in what came: a response begins with its id, a number
 * below ASKED of ours. */
static void count_answers(world *w, const char *text) {
  static const char mark[] = "{\"jsonrpc\":\"2.0\",\"id\":";
  for (; (text = strstr(text, mark)); text++) {
    char *end;
    unsigned long id = strtoul(text + sizeof mark - 1, &end, 10);
    if (strncmp(end, ",\"result\"", 9) != 0 && strncmp(end, ",\"error\"", 8) != 0) continue;
    if (id < ASKED) w->answers[id]++;
    MUST(id >= ASKED || id == 0 || w->answers[id] <= 1);
  }
}

/* The text after a mark, up to a character; false: it is not there. */
static bool find_text(const char *text, const char *mark, const char *until, char *out,
                      size_t room) {
  const char *at = text ? strstr(text, mark) : NULL;
  if (!at) return false;
  at += strlen(mark);
  snprintf(out, room, "%.*s", (int)strcspn(at, until), at);
  return true;
}

static void note_news(world *w, line *from) {
  char id[40];
  const char *text = from->out.text;
  if (find_text(text, "Mcp-Session-Id: ", "\r", id, sizeof id))
    snprintf(w->sessions[take(w) % SESSIONS], sizeof w->sessions[0], "Mcp-Session-Id: %s\r\n", id);
  if (find_text(text, "\"taskId\":\"", "\"", id, sizeof id))
    snprintf(w->tasks[take(w) % TASKS], sizeof w->tasks[0], "%.32s", id);
  find_text(text, "event: endpoint\ndata: ", "\n", from->target, sizeof from->target);
  if (strstr(text, "101 Switching")) from->websocket = true;
}

static void collect(world *w, line *from) {
  from->out.len = 0;
  if (from->out.text) from->out.text[0] = 0;
  if (from->http) http_fuzz_collect(from->http, &from->out, w->now_ms);
  idem_chunk chunk;
  while (from->conn && idem_conn_next_chunk(from->conn, &chunk)) {
    from->out.text = realloc(from->out.text, from->out.len + chunk.len + 1);
    MUST(from->out.text);
    memcpy(from->out.text + from->out.len, chunk.data, chunk.len);
    from->out.len += chunk.len;
    from->out.text[from->out.len] = 0;
    idem_chunk_free(&chunk);
  }
  if (!from->out.len) return;
  count_answers(w, from->out.text);
  /* One refused before it was read has an answer without its id. */
  if (w->answers[from->asked] || strstr(from->out.text, "\"id\":null")) from->asked = 0;
  note_news(w, from);
}

static void close_line(line *it) {
  idem__http_conn_free(it->http);
  idem_conn_free(it->conn);
  free(it->out.text);
  *it = (line){.asked = 0};
}

static void settle_line(world *w, line *it) {
  idem_status status = IDEM_OK;
  while (it->http && status == IDEM_OK && idem__http_conn_deadline(it->http) <= w->now_ms) {
    status = idem__http_conn_expire(it->http, w->now_ms);
    collect(w, it);
  }
  while (it->conn && status == IDEM_OK && idem_conn_deadline(it->conn) <= w->now_ms)
    status = idem_conn_expire(it->conn);
  collect(w, it);
  bool over = status != IDEM_OK || (it->http && idem__http_conn_finished(it->http)) ||
              (it->conn && idem_conn_done(it->conn));
  if (over) close_line(it);
}

static void settle(world *w) {
  for (int turn = 0; turn < 3; turn++) {
    for (size_t i = 0; w->woken && i < 100; i++) {
      w->woken = false;
      idem__worker_deliver(w->mcp);
    }
    if (idem__worker_deadline(w->mcp) <= w->now_ms) idem__worker_expire(w->mcp, w->now_ms);
    for (size_t i = 0; i < LINES; i++) settle_line(w, &w->lines[i]);
  }
}

/* ------------------------------------------------------------------ sending */

static line *pick(world *w) { return &w->lines[take(w) % LINES]; }

static bool is_http(const line *it) { return it->http && !it->websocket && !it->target[0]; }

static line *http_line(world *w) {
  line *it = pick(w);
  if (!is_http(it)) close_line(it);
  if (it->http) return it;
  idem__http_conn_opts opts = {.server = w->server, .peer = "fuzz", .now_ms = w->now_ms};
  MUST(idem__http_conn_new(&opts, &it->http) == IDEM_OK);
  return it;
}

static void send_http(world *w, line *it, const char *method, const char *target,
                      const char *headers, const char *body) {
  char text[2048];
  bool streams = take(w) % 8 != 0;
  int len =
      snprintf(text, sizeof text,
               "%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/json%s\r\n%s"
               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
               method, target, streams ? ", text/event-stream" : "", headers, strlen(body), body);
  MUST(len > 0 && (size_t)len < sizeof text);
  const char *id = strstr(body, "{\"jsonrpc\":\"2.0\",\"id\":");
  bool waits = id && strstr(body, "\"method\"") && strcmp(target, "/mcp") == 0 &&
               idem__http_conn_idle(it->http) && !idem__http_conn_closing(it->http);
  if (!it->asked && waits) it->asked = (unsigned)strtoul(id + 22, NULL, 10);
  if (idem__http_conn_feed(it->http, text, (size_t)len, w->now_ms) != IDEM_OK) close_line(it);
}

/* A message of the older era, on whatever there is that carries it. */
static void send_legacy(world *w, const char *body) {
  line *it = pick(w);
  char bytes[1024];
  if (it->conn) {
    size_t len = (size_t)snprintf(bytes, sizeof bytes, "%s\n", body);
    if (idem_conn_feed(it->conn, bytes, len) != IDEM_OK) close_line(it);
  } else if (it->websocket) {
    size_t len = frame(bytes, FIN | TEXT, body, strlen(body), true);
    if (idem__http_conn_feed(it->http, bytes, len, w->now_ms) != IDEM_OK) close_line(it);
  } else if (it->target[0]) {
    char target[96];
    memcpy(target, it->target, sizeof target);
    send_http(w, http_line(w), "POST", target, "", body);
  } else {
    send_http(w, http_line(w), "POST", "/mcp", w->sessions[take(w) % SESSIONS], body);
  }
}

static unsigned new_id(world *w) { return w->next_id < ASKED - 1 ? w->next_id++ : 0; }

/* ------------------------------------------------------------------ actions */

static void act_open(world *w, unsigned what) {
  static const char upgrade[] = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                                "Sec-WebSocket-Version: 13\r\n"
                                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  line *it = http_line(w);
  switch (what % 4) {
  case 0: send_http(w, it, "GET", "/mcp", upgrade, ""); break;
  case 1: send_http(w, it, "GET", "/sse", "", ""); break;
  case 2: send_http(w, it, "GET", "/mcp", w->sessions[take(w) % SESSIONS], ""); break;
  default:
    close_line(it);
    idem_conn_opts opts = {.now_ns = clock_ns, .clock_ctx = w};
    MUST(idem__worker_accept(w->mcp, &opts, NULL, &it->conn) == IDEM_OK);
  }
}

static void act_hello(world *w, unsigned what) {
  static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
  char body[512];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"initialize\",\"params\":{"
           "\"protocolVersion\":\"%s\",\"capabilities\":" CAPABILITIES
           ",\"clientInfo\":{\"name\":\"f\",\"version\":\"1\"}}}",
           new_id(w), versions[what % 4 > 1 ? 0 : take(w) % 4]);
  if (what % 2)
    send_http(w, http_line(w), "POST", "/mcp", "", body);
  else
    send_legacy(w, body);
}

static const char *const tools[] = {"slow", "ask",      "ask_all",     "insist", "job", "job_ask",
                                    "echo", "job_must", "job_by_hand", "later",  "nag", "progress"};

static void act_call(world *w, unsigned what) {
  char body[256];
  bool task = what & 1;
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/"
           "call\",\"params\":{\"name\":\"%s\","
           "\"arguments\":{}%s}}",
           new_id(w), tools[what / 2 % 12], task ? ",\"task\":{}" : "");
  send_legacy(w, body);
}

static void act_modern(world *w, unsigned what) {
  char headers[256], body[1024];
  const char *tool = tools[what / 2 % 12], *task = w->tasks[take(w) % TASKS];
  const char *method = "tools/call", *name = tool;
  char members[256];
  snprintf(members, sizeof members, "\"name\":\"%s\",\"arguments\":{}", tool);
  if (what % 8 == 1) {
    method = "subscriptions/listen", name = "";
    snprintf(members, sizeof members,
             "\"notifications\":{\"toolsListChanged\":true,\"taskIds\":[\"%s\"]}", task);
  } else if (what % 8 == 3) {
    method = what & 16 ? "tasks/cancel" : "tasks/update", name = task;
    snprintf(members, sizeof members,
             "\"taskId\":\"%s\",\"inputResponses\":{\"r\":{\"roots\":[]},"
             "\"who\":{\"action\":"
             "\"accept\"}}",
             task);
  }
  snprintf(headers, sizeof headers, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%s%s%s",
           method, *name ? "Mcp-Name: " : "", name, *name ? "\r\n" : "");
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\",\"params\":{%s," META "}}", new_id(w),
           method, members);
  send_http(w, http_line(w), "POST", "/mcp", headers, body);
}

static void act_task(world *w, unsigned what) {
  static const char *const methods[] = {"tasks/result", "tasks/get", "tasks/cancel",
                                        "tasks/result"};
  char body[256];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\",\"params\":{"
           "\"taskId\":\"%s\"}}",
           new_id(w), methods[what % 4], w->tasks[take(w) % TASKS]);
  send_legacy(w, body);
}

static void act_answer(world *w, unsigned what) {
  char body[256];
  unsigned id = what % 8 + (what / 8) * IDEM__CALLS_RESERVED;
  snprintf(body, sizeof body,
           take(w) % 4 ? "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{"
                         "\"action\":\"accept\",\"roots\":[]}}"
                       : "{\"jsonrpc\":\"2.0\",\"id\":%u,\"error\":{\"code\":-"
                         "1,\"message\":\"no\"}}",
           id);
  send_legacy(w, body);
}

static void act_cancel(world *w, unsigned what) {
  char body[128];
  unsigned back = what % 8;
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
           "cancelled\",\"params\":{\"requestId\":"
           "%u}}",
           w->next_id > back ? w->next_id - back : 1);
  w->cancelled[w->next_id > back ? w->next_id - back : 1] = true;
  send_legacy(w, body);
}

static void act_on_line(world *w, unsigned what) {
  line *it = pick(w);
  switch (what % 6) {
  case 0: close_line(it); break;
  case 1:
    it->asked = 0; /* which may cancel it */
    if (it->http && idem__http_conn_feed_eof(it->http, w->now_ms) != IDEM_OK) close_line(it);
    if (it->conn) (void)idem_conn_feed_eof(it->conn);
    break;
  case 2:
    if (it->http) idem__http_conn_close(it->http, w->now_ms);
    if (it->conn) idem_conn_close(it->conn);
    break;
  case 3:
    if (it->http) idem__http_conn_abort(it->http, w->now_ms);
    if (it->conn) idem_conn_abort(it->conn);
    break;
  case 4: idem_server_resource_updated(w->fixture.server, "file:///a"); break;
  default: send_http(w, http_line(w), "DELETE", "/mcp", w->sessions[take(w) % SESSIONS], "");
  }
}

static void act_time(world *w, unsigned what) {
  static const uint64_t steps[] = {1, 500, 16000, 21000, 31000, 61000};
  w->now_ms += steps[what % 6];
  w->fixture.wall_ms += steps[what % 6];
}

static void step(world *w) {
  static void (*const actions[])(world * w, unsigned what) = {
      act_open,    act_hello,   act_hello, act_call,   act_call,   act_call,
      act_modern,  act_modern,  act_task,  act_answer, act_answer, act_cancel,
      act_on_line, act_on_line, act_time,  act_on_kept};
  unsigned which = take(w), what = take(w);
  actions[which % 16](w, what);
  if (which < 200) settle(w); /* sometimes several things happen before anybody looks */
}

/* Whoever waits when the server stops is answered. */
static void stop_world(world *w) {
  for (size_t i = 0; i < LINES; i++) {
    line *it = &w->lines[i];
    unsigned id = it->asked;
    if (!it->http || it->websocket || it->target[0] || !id) continue;
    idem__http_conn_abort(it->http, w->now_ms);
    collect(w, it);
    MUST(!it->asked || w->cancelled[id]);
  }
}

/* In the order in which a driver ends: connections, endpoints, the worker,
 * the server. */
static void end_world(world *w) {
  w->ended = true;
  for (size_t i = 0; i < LINES; i++) close_line(&w->lines[i]);
  idem__http_server_free(w->server);
  idem__mcp_endpoint_free(w->endpoint);
  idem__session_table_free(w->table);
  idem__worker_free(w->mcp);
  while (w->kept_count) { /* handlers that went on all the same */
    idem_request *request = w->kept[0];
    forget(w, request);
    look(request);
    idem_request_drop(request);
  }
  MUST(idem__router_work(w->fixture.server->router) == 0);
  mcp_fixture_close(&w->fixture);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static world w;
  if (size > 1024) return 0;
  w = (world){.at = data, .end = data + size};
  open_world(&w);
  while (w.at < w.end) step(&w);
  if (size % 2) stop_world(&w);
  end_world(&w);
  return 0;
}
