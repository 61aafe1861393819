/* test_worker_threads.c - hubs on threads of their own share one server: what it
 * serves changes under them, tasks of one are cancelled, answered and listened
 * to from the other, and news arrives. */
#include "mcp_server/mcp_server.h"
#include "mcp_server/task.h"
#include "support/mcp_fixture.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 2, TURNS = 200, KEPT = 64 };

typedef struct worker {
  mcp_fixture *fixture;
  int number;
  _Atomic bool woken;
  idem__mcp_worker *hub;
  idem_conn *conn;
  size_t messages;
  size_t list_changes;
  size_t task_news;
  size_t lines;
  size_t statuses;
} worker;

/* Task ids that threads show each other. */
static struct {
  pthread_mutex_t lock;
  char ids[KEPT][IDEM__TASK_ID + 1];
  size_t count;
} shown = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void show(const char *id) {
  pthread_mutex_lock(&shown.lock);
  memcpy(shown.ids[shown.count++ % KEPT], id, IDEM__TASK_ID);
  pthread_mutex_unlock(&shown.lock);
}

static void see(size_t at, char out[IDEM__TASK_ID + 1]) {
  pthread_mutex_lock(&shown.lock);
  memcpy(out, shown.ids[at % KEPT], IDEM__TASK_ID + 1);
  pthread_mutex_unlock(&shown.lock);
}

/* Ids that differ, from any thread. */
static void draw(void *ctx, void *bytes, size_t len) {
  static _Atomic uint64_t drawn;
  (void)ctx;
  for (size_t i = 0; i < len; i += sizeof drawn) {
    uint64_t next = atomic_fetch_add(&drawn, 1);
    memcpy((char *)bytes + i, &next, len - i < sizeof next ? len - i : sizeof next);
  }
}

static void on_wake(idem__mcp_worker *hub, void *user) {
  (void)hub;
  atomic_store(&((worker *)user)->woken, true);
}

static const char *find(const char *message, size_t len, const char *word) {
  return memmem(message, len, word, strlen(word));
}

static void on_trace(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                     void *user) {
  static const char created[] = "\"resultType\":\"task\",\"taskId\":\"";
  (void)conn;
  worker *w = user;
  if (direction == IDEM_IN) return;
  w->messages++;
  w->list_changes += find(message, len, "tools/list_changed") != NULL;
  w->lines += find(message, len, "notifications/message") != NULL;
  w->statuses += find(message, len, "notifications/tasks/status") != NULL;
  w->task_news += find(message, len, "\"notifications/tasks\"") != NULL;
  const char *id = find(message, len, created);
  if (id) show(id + sizeof created - 1);
}

#define CAN                                                                                        \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{},"                            \
  "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}"

static void drain(worker *w) {
  idem_chunk chunk;
  if (atomic_exchange(&w->woken, false)) idem__worker_deliver(w->hub);
  while (idem_conn_next_chunk(w->conn, &chunk)) idem_chunk_free(&chunk);
}

static void ask(worker *w, int id, const char *method, const char *members) {
  char line[1024];
  int len = snprintf(line, sizeof line,
                     "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":{%s" CAN "}}\n",
                     id, method, members);
  assert_int_equal(idem_conn_feed(w->conn, line, (size_t)len), IDEM_OK);
  drain(w);
}

/* The same conn is a legacy session, too, and hears outside its requests. */
static void say(worker *w, const char *line) {
  assert_int_equal(idem_conn_feed(w->conn, line, strlen(line)), IDEM_OK);
  drain(w);
}

static void shake_hands(worker *w) {
  say(w, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
         "\"2025-11-25\",\"capabilities\":{\"elicitation\":{\"url\":{}}},\"clientInfo\":{\"name\":"
         "\"c\","
         "\"version\":\"1\"}}}\n");
  say(w, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
}

static void tell_sessions(worker *w) {
  idem_server *server = w->fixture->server;
  say(w,
      "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"tools/call\",\"params\":{\"name\":\"visit\"}}\n");
  idem_server_elicitation_complete(server, "visit-1");
  say(w,
      "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"job_fail\","
      "\"task\":{}}}\n");
  idem_server_log(server, IDEM_MCP_ERROR, "threads", "[1]", 3);
}

static void act_on_tasks(worker *w, size_t turn) {
  char id[IDEM__TASK_ID + 1], members[256];
  ask(w, 1, "tools/call", turn % 2 ? "\"name\":\"job_ask\"," : "\"name\":\"job_fail\",");
  see(turn * 7, id);
  snprintf(members, sizeof members, "\"taskId\":\"%s\",", id);
  ask(w, 2, "tasks/get", members);
  if (turn % 3 == 0) ask(w, 3, "tasks/cancel", members);
  snprintf(members, sizeof members,
           "\"taskId\":\"%s\",\"inputResponses\":{\"who\":{\"action\":\"accept\"}},", id);
  ask(w, 4, "tasks/update", members);
}

static void change_what_is_served(worker *w, size_t turn) {
  char name[32];
  snprintf(name, sizeof name, "t%d_%zu", w->number, turn);
  assert_int_equal(mcp_fixture_add_tool(w->fixture, name), IDEM_OK);
  ask(w, 5, "tools/list", "");
  assert_int_equal(idem_server_remove_tool(w->fixture->server, name), IDEM_OK);
  idem_server_resource_updated(w->fixture->server, "file:///a");
}

static void listen_to_all(worker *w, size_t turn) {
  char id[IDEM__TASK_ID + 1], members[256];
  see(turn, id);
  snprintf(members, sizeof members,
           "\"notifications\":{\"toolsListChanged\":true,"
           "\"resourceSubscriptions\":[\"file:///a\"],"
           "\"taskIds\":[\"%s\"]},",
           id);
  ask(w, 1000 + (int)turn, "subscriptions/listen", members);
}

static void *work(void *user) {
  worker *w = user;
  idem_conn_opts opts = {.on_trace = on_trace, .user = w};
  assert_int_equal(idem__worker_new(w->fixture->server, on_wake, w, &w->hub), IDEM_OK);
  assert_int_equal(idem__worker_accept(w->hub, &opts, "alice", &w->conn), IDEM_OK);
  shake_hands(w);
  for (size_t turn = 0; turn < TURNS; turn++) {
    act_on_tasks(w, turn);
    tell_sessions(w);
    change_what_is_served(w, turn);
    if (turn % 50 == 10) listen_to_all(w, turn);
  }
  drain(w);
  idem_conn_free(w->conn);
  idem__worker_free(w->hub);
  return NULL;
}

static void hubs_on_threads_share_a_server(void **state) {
  (void)state;
  mcp_fixture fixture = {0};
  worker workers[THREADS] = {{0}};
  pthread_t threads[THREADS];
  assert_int_equal(mcp_fixture_open(&fixture, &(idem_server_opts){.random = draw}), IDEM_OK);
  for (int i = 0; i < THREADS; i++) {
    workers[i].fixture = &fixture;
    workers[i].number = i;
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    assert_true(workers[i].messages >= TURNS * 4);
    assert_true(workers[i].list_changes >= TURNS / 2);
    assert_true(workers[i].lines >= TURNS / 2);
    assert_true(workers[i].statuses >= TURNS / 2);
  }
  mcp_fixture_close(&fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(hubs_on_threads_share_a_server)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
