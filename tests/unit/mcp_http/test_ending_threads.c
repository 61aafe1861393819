/* test_ending_threads.c - a server may end at any moment: with every kind of request, question and
 * task in flight, after every few things that can happen to them, on one thread and on several. What is
 * promised: nothing is touched that has gone, and no handler runs when its server is half gone. */
#include "support/mcp_web.h"
#include "support/unit.h"
#include "support/ws_frame.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CAPABILITIES                                                                               \
  "{\"elicitation\":{\"form\":{},\"url\":{}},\"sampling\":{},\"roots\":{},\"extensions\":{"        \
  "\"io.modelcontextprotocol/tasks\":{}}}"
#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":" CAPABILITIES "}"
#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2025-11-25\",\"capabilities\":" CAPABILITIES                                                  \
  ",\"clientInfo\":{\"name\":\"somebody\",\"version\":\"1\"}}}"

enum { KEPT = 64, LINES = 4 };

typedef struct world {
  mcp_web web;
  char session[64], target[128], task[IDEM__SESSION_ID + 1];
  mcp_web_conn lines[LINES];
  size_t line_count;
  bool websocket;
  idem_request *kept[KEPT];
  size_t kept_count;
  bool stubborn; /* handlers go on when they are cancelled */
  bool ended;    /* nothing may run any more */
} world;

/* ----------------------------------------------------------------- handlers */

static void forget(world *w, const idem_request *request) {
  for (size_t i = 0; i < w->kept_count; i++) {
    if (w->kept[i] == request) w->kept[i--] = w->kept[--w->kept_count];
  }
}

static void look(idem_request *request) {
  const char *name = yyjson_get_str(yyjson_obj_get(idem_peer_info(request), "name"));
  if (name) assert_string_equal(name, "somebody");
  (void)idem_can_ask(request, IDEM_ASK_FORM);
  (void)yyjson_obj_size(idem_peer_capabilities(request));
  (void)strlen(idem_principal(request));
  idem_progress(request, 1, 2, "on");
  idem_mcp_log(request, IDEM_MCP_ERROR, "l", "text");
  idem_task_status(request, "status");
}

/* It looks around, asks, and lets go: whatever a handler may do when it is told. */
static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  world *w = user;
  (void)reason;
  look(request);
  if (w->stubborn) return;
  forget(w, request);
  idem_needs_input(request, &(idem_ask){.key = "r", .kind = IDEM_ASK_ROOTS}, 1, NULL, 0);
}

static void keep(idem_request *request, void *user) {
  world *w = user;
  assert_false(w->ended);
  if (w->kept_count == KEPT) {
    idem_request_drop(request);
    return;
  }
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, w);
  w->kept[w->kept_count++] = request;
}

/* Never content; it would be run again with each end of a question. */
static void tool_insist(idem_request *request, yyjson_val *arguments, void *user) {
  const world *w = user;
  (void)arguments;
  assert_false(w->ended);
  look(request);
  idem_needs_input(request, &(idem_ask){.key = "r", .kind = IDEM_ASK_ROOTS}, 1, NULL, 0);
}

static void answer_kept(world *w) {
  while (w->kept_count) {
    idem_request *request = w->kept[0];
    forget(w, request);
    look(request);
    idem_tool_text(request, "done", 4);
  }
}

/* ------------------------------------------------------------------- asking */

static mcp_web_conn *new_line(world *w) {
  assert_true(w->line_count < LINES);
  mcp_web_conn *line = &w->lines[w->line_count++];
  mcp_web_connect(&w->web, line);
  return line;
}

static void note_task(world *w, const char *output) {
  const char *at = strstr(output, "\"taskId\":\"");
  if (at) snprintf(w->task, sizeof w->task, "%.32s", at + 10);
}

static void post(world *w, const char *headers, const char *body) {
  mcp_web_conn *line = new_line(w);
  mcp_web_send(line, "POST", "/mcp", headers, body);
  note_task(w, line->output);
}

static void shake_hands(world *w) {
  mcp_web_session(mcp_web_ask(&w->web, "POST", "/mcp", "", HELLO), w->session);
}

static void call_legacy(world *w, const char *tool, const char *more) {
  char body[256];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
           "\"arguments\":{}%s}}",
           tool, more);
  shake_hands(w);
  post(w, w->session, body);
}

static void call_modern(world *w, const char *method, const char *name, const char *members) {
  char headers[256], body[1024];
  snprintf(headers, sizeof headers, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%s%s%s",
           method, *name ? "Mcp-Name: " : "", name, *name ? "\r\n" : "");
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"%s\",\"params\":{%s," META "}}", method,
           members);
  post(w, headers, body);
}

static void wait_for_task(world *w) {
  char body[256];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tasks/result\",\"params\":{\"taskId\":"
           "\"%s\"}}",
           w->task);
  post(w, w->session, body);
}

static void send_frame(world *w, const char *text) {
  char bytes[1024];
  size_t len = frame(bytes, FIN | TEXT, text, strlen(text), true);
  if (!w->lines[0].conn) return;
  /* One that has closed hears nothing any more. */
  if (idem__http_conn_feed(w->lines[0].conn, bytes, len, w->web.now_ms) != IDEM_OK) return;
  mcp_web_settle(&w->lines[0]);
  note_task(w, w->lines[0].output);
}

static void call_websocket(world *w, const char *tool, const char *more) {
  char body[256];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
           "\"arguments\":{}%s}}",
           tool, more);
  mcp_web_upgrade(new_line(w), "");
  w->websocket = true;
  send_frame(w, HELLO);
  send_frame(w, body);
}

static void call_sse(world *w, const char *tool, const char *more) {
  char body[256];
  mcp_web_conn *line = new_line(w);
  mcp_web_open_sse(line, "", w->target);
  free(mcp_web_ask(&w->web, "POST", w->target, "", HELLO));
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
           "\"arguments\":{}%s}}",
           tool, more);
  free(mcp_web_ask(&w->web, "POST", w->target, "", body));
  mcp_web_settle(line);
  note_task(w, line->output);
}

/* ------------------------------------------------------------ kinds of work */

static void legacy_slow(world *w) { call_legacy(w, "slow", ""); }
static void legacy_ask(world *w) { call_legacy(w, "ask", ""); }
static void legacy_ask_all(world *w) { call_legacy(w, "ask_all", ""); }
static void legacy_insist(world *w) { call_legacy(w, "insist", ""); }
static void legacy_task_insists(world *w) {
  call_legacy(w, "insist", ",\"task\":{}");
  wait_for_task(w);
}
static void legacy_task(world *w) { call_legacy(w, "job", ",\"task\":{}"); }
static void legacy_task_asks(world *w) { call_legacy(w, "job_ask", ",\"task\":{}"); }
static void legacy_task_waited_for(world *w) {
  legacy_task(w);
  wait_for_task(w);
}
static void legacy_task_asks_who_waits(world *w) {
  call_legacy(w, "job_ask_all", ",\"task\":{}");
  wait_for_task(w);
}
static void legacy_read(world *w) {
  shake_hands(w);
  post(
      w, w->session,
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/read\",\"params\":{\"uri\":\"ask:\"}}");
}
static void legacy_prompt(world *w) {
  shake_hands(w);
  post(
      w, w->session,
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"prompts/get\",\"params\":{\"name\":\"asking\"}}");
}
static void legacy_stream(world *w) {
  legacy_ask(w);
  mcp_web_send(new_line(w), "GET", "/mcp", w->session, NULL);
}
static void modern_slow(world *w) {
  call_modern(w, "tools/call", "slow", "\"name\":\"slow\",\"arguments\":{}");
}
static void modern_task(world *w) {
  call_modern(w, "tools/call", "job", "\"name\":\"job\",\"arguments\":{}");
}
static void modern_task_asks(world *w) {
  call_modern(w, "tools/call", "job_ask", "\"name\":\"job_ask\",\"arguments\":{}");
}
static void modern_listen(world *w) {
  modern_task(w);
  char members[256];
  snprintf(members, sizeof members,
           "\"notifications\":{\"toolsListChanged\":true,\"taskIds\":[\"%s\"]}", w->task);
  call_modern(w, "subscriptions/listen", "", members);
}
static void websocket_slow(world *w) { call_websocket(w, "slow", ""); }
static void websocket_ask(world *w) { call_websocket(w, "ask", ""); }
static void websocket_insist(world *w) { call_websocket(w, "insist", ""); }
static void websocket_task(world *w) {
  char body[256];
  call_websocket(w, "job_ask", ",\"task\":{}");
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tasks/result\",\"params\":{\"taskId\":"
           "\"%s\"}}",
           w->task);
  send_frame(w, body);
}
static void sse_slow(world *w) { call_sse(w, "slow", ""); }
static void sse_ask(world *w) { call_sse(w, "ask_all", ""); }
static void sse_insist(world *w) { call_sse(w, "insist", ""); }
static void sse_task(world *w) { call_sse(w, "job_ask", ",\"task\":{}"); }

static void (*const kinds[])(world *w) = {legacy_slow,
                                          legacy_ask,
                                          legacy_ask_all,
                                          legacy_insist,
                                          legacy_task_insists,
                                          legacy_task,
                                          legacy_task_asks,
                                          legacy_task_waited_for,
                                          legacy_task_asks_who_waits,
                                          legacy_read,
                                          legacy_prompt,
                                          legacy_stream,
                                          modern_slow,
                                          modern_task,
                                          modern_task_asks,
                                          modern_listen,
                                          websocket_slow,
                                          websocket_ask,
                                          websocket_insist,
                                          websocket_task,
                                          sse_slow,
                                          sse_ask,
                                          sse_insist,
                                          sse_task};

/* ------------------------------------------------------- what may happen to it */

/* As a driver: what is due happens, and a connection that has come to its end is let go. */
static void settle_line(world *w, mcp_web_conn *line) {
  idem_status status = IDEM_OK;
  while (status == IDEM_OK && idem__http_conn_deadline(line->conn) <= w->web.now_ms)
    status = idem__http_conn_expire(line->conn, w->web.now_ms);
  if (status == IDEM_OK && !idem__http_conn_finished(line->conn)) {
    mcp_web_settle(line);
    return;
  }
  mcp_web_disconnect(line);
  *line = (mcp_web_conn){.web = &w->web};
}

static void settle_lines(world *w) {
  mcp_web_deliver(&w->web);
  for (size_t i = 0; i < w->line_count; i++) {
    if (w->lines[i].conn) settle_line(w, &w->lines[i]);
  }
}

static void drop_lines(world *w) {
  for (size_t i = 0; i < w->line_count; i++) {
    if (w->lines[i].conn) mcp_web_disconnect(&w->lines[i]);
    w->lines[i] = (mcp_web_conn){.web = &w->web};
  }
}

static void lose_lines(world *w) {
  drop_lines(w);
  w->line_count = 0;
}

static void end_input(world *w) {
  for (size_t i = 0; i < w->line_count; i++) {
    if (!w->lines[i].conn) continue;
    (void)idem__http_conn_feed_eof(w->lines[i].conn, w->web.now_ms);
  }
  settle_lines(w);
}

static void delete_session(world *w) {
  if (w->session[0]) free(mcp_web_ask(&w->web, "DELETE", "/mcp", w->session, NULL));
}

static void tell(world *w, const char *body) {
  if (w->session[0]) free(mcp_web_ask(&w->web, "POST", "/mcp", w->session, body));
  if (w->target[0]) free(mcp_web_ask(&w->web, "POST", w->target, "", body));
  if (w->websocket && w->line_count) send_frame(w, body);
}

static void cancel(world *w) {
  tell(w,
       "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}");
}

static void cancel_task(world *w) {
  char body[256];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tasks/cancel\",\"params\":{\"taskId\":"
           "\"%s\"}}",
           w->task);
  if (w->task[0]) tell(w, body);
}

/* Questions are numbered from 1 on each line, and in steps of 4,096 in a session. */
static void answer_questions(world *w) {
  char body[256];
  for (unsigned i = 0; i < 16; i++) {
    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"action\":\"accept\",\"roots\":[]}}",
             1 + i % 4 + i / 4 * IDEM__CALLS_RESERVED);
    tell(w, body);
  }
}

static void pass_time(world *w) {
  w->web.now_ms += 700000;
  w->web.fixture->wall_ms += 700000;
  char other[64];
  mcp_web_hello(&w->web, "", other);
}

static void stop_softly(world *w) {
  for (size_t i = 0; i < w->line_count; i++)
    if (w->lines[i].conn) idem__http_conn_close(w->lines[i].conn, w->web.now_ms);
}

static void stop_hard(world *w) {
  for (size_t i = 0; i < w->line_count; i++)
    if (w->lines[i].conn) idem__http_conn_abort(w->lines[i].conn, w->web.now_ms);
}

static void (*const steps[])(world *w) = {lose_lines,       end_input, delete_session, cancel,
                                          cancel_task,      pass_time, answer_kept,    stop_softly,
                                          answer_questions, stop_hard};

enum {
  KIND_COUNT = sizeof kinds / sizeof kinds[0],
  STEP_COUNT = sizeof steps / sizeof steps[0],
  NO_STEP = STEP_COUNT
};

static void open_world(world *w, bool stubborn) {
  *w = (world){.stubborn = stubborn};
  mcp_web_open(&w->web, &(mcp_web_opts){.table = {.session_idle_ms = 600000}});
  w->web.fixture->keep = keep;
  w->web.fixture->user = w;
  idem_tool tool = {.name = "insist", .fn = tool_insist, .user = w, .task = IDEM_TASK_OPTIONAL};
  assert_int_equal(idem_server_add_tool(w->web.fixture->server, &tool, NULL, 0), IDEM_OK);
}

static void take_step(world *w, size_t step) {
  if (step == NO_STEP) return;
  steps[step](w);
  settle_lines(w);
}

/* As a driver ends: connections, then endpoints, then the loop's server, then the server. */
static void end_world(world *w) {
  w->ended = true;
  drop_lines(w);
  idem__http_server_free(w->web.server);
  idem__mcp_endpoint_free(w->web.endpoint);
  idem__session_table_free(w->web.table);
  idem__worker_free(w->web.mcp);
  answer_kept(w); /* handlers that went on all the same */
  mcp_fixture_close(&w->web.own);
}

static void play(size_t kind, size_t first, size_t second, bool stubborn) {
  world w;
  open_world(&w, stubborn);
  kinds[kind](&w);
  take_step(&w, first);
  take_step(&w, second);
  end_world(&w);
}

static void a_server_may_end_at_every_step(void **state) {
  (void)state;
  for (size_t kind = 0; kind < KIND_COUNT; kind++) {
    for (size_t first = 0; first <= NO_STEP; first++) {
      for (size_t second = 0; second <= NO_STEP; second++) {
        play(kind, first, second, (first + second) % 2);
      }
    }
  }
}

/* ------------------------------------------------------------------ threads */

enum { THREADS = 2, ROUNDS = 12 };

static struct {
  mcp_web first;
  char sessions[THREADS][64];
  pthread_barrier_t together;
} shared;

typedef struct worker {
  world world;
  pthread_t thread;
  unsigned number;
} worker;

static void draw(void *ctx, void *bytes, size_t len) {
  static _Atomic uint64_t drawn;
  uint64_t next = atomic_fetch_add(&drawn, 1) + 1;
  (void)ctx;
  memset(bytes, 0, len);
  memcpy(bytes, &next, len < sizeof next ? len : sizeof next);
}

static void call_as(world *w, const char *session, unsigned id, const char *tool) {
  char body[256];
  if (w->line_count == LINES) lose_lines(w);
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
           "\"arguments\":{}}}",
           id, tool);
  post(w, session, body);
}

/* Everybody uses everybody's session: asks in it, answers, cancels and ends it, and goes at last with
 * whatever is in flight. */
static void *work(void *arg) {
  worker *self = arg;
  world *w = &self->world;
  char cancelled[128];
  static const char *const tools[] = {"ask", "ask_all", "nag", "echo", "job_ask"};
  for (unsigned round = 0; round < ROUNDS; round++) {
    shake_hands(w);
    memcpy(shared.sessions[self->number], w->session, sizeof w->session);
    pthread_barrier_wait(&shared.together);
    memcpy(w->session, shared.sessions[(self->number + round) % THREADS], sizeof w->session);
    for (unsigned turn = 0; turn < 8; turn++) {
      call_as(w, shared.sessions[turn % THREADS], self->number * 100 + turn,
              tools[(turn + round) % 5]);
      if (turn % 3 == self->number) answer_questions(w);
      snprintf(cancelled, sizeof cancelled,
               "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
               "\"requestId\":%u}}",
               (1 - self->number) * 100 + turn);
      tell(w, cancelled);
      if (turn == 6) delete_session(w);
      settle_lines(w);
    }
    pthread_barrier_wait(&shared.together);
  }
  if (self->number) drop_lines(w); /* the other one goes while we still work */
  return NULL;
}

static void ends_while_others_work(worker *self, unsigned number) {
  *self = (worker){.number = number};
  mcp_web_open(&self->world.web,
               &(mcp_web_opts){.fixture = shared.first.fixture, .shared = shared.first.table});
}

static void loops_may_end_while_others_work(void **state) {
  (void)state;
  static worker workers[THREADS];
  mcp_web_open(&shared.first, &(mcp_web_opts){.server = {.random = draw}});
  pthread_barrier_init(&shared.together, NULL, THREADS);
  for (unsigned i = 0; i < THREADS; i++) ends_while_others_work(&workers[i], i);
  for (unsigned i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  for (unsigned i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    drop_lines(&workers[i].world);
    mcp_web_close(&workers[i].world.web);
  }
  mcp_web_close(&shared.first);
  pthread_barrier_destroy(&shared.together);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_server_may_end_at_every_step),
      cmocka_unit_test(loops_may_end_while_others_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
