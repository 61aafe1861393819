/* test_web_threads.c - loops on threads of their own share a server's sessions and streams: the
 * same ids are asked for everywhere, the same session is changed from everywhere, and what is posted
 * on one thread is answered on the stream of another. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, TURNS = 150 };

typedef struct worker {
  mcp_web web;
  pthread_t thread;
  unsigned number;
  unsigned answered, refused;
} worker;

static struct {
  mcp_web first;
  char session[64];
  char target[THREADS][128];
  pthread_barrier_t together;
} world;

static void draw(void *ctx, void *bytes, size_t len) {
  static _Atomic uint64_t drawn;
  uint64_t next = atomic_fetch_add(&drawn, 1) + 1;
  (void)ctx;
  memset(bytes, 0, len);
  memcpy(bytes, &next, len < sizeof next ? len : sizeof next);
}

/* Every thread uses the same ids in the same session: each gets its answer, or hears why not. */
static void call(worker *self, unsigned turn) {
  char body[256];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":"
           "\"progress\",\"arguments\":{},\"_meta\":{\"progressToken\":1}}}",
           turn % 4);
  char *answer = mcp_web_ask(&self->web, "POST", "/mcp", world.session, body);
  self->answered += strstr(answer, "\"result\"") != NULL;
  self->refused += strstr(answer, "duplicate-id") != NULL;
  free(answer);
}

static void subscribe(worker *self, unsigned turn) {
  char body[256];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":\"s%u-%u\",\"method\":\"resources/%s\",\"params\":{\"uri\":"
           "\"x:%u\"}}",
           self->number, turn, turn % 3 ? "subscribe" : "unsubscribe", turn % 5);
  char *answer = mcp_web_ask(&self->web, "POST", "/mcp", world.session, body);
  assert_non_null(strstr(answer, "200 OK"));
  free(answer);
  idem_server_resource_updated(self->web.fixture->server, "x:1");
}

static void cancel(worker *self, unsigned turn) {
  char body[128];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":"
           "%u}}",
           turn % 4);
  char *answer = mcp_web_ask(&self->web, "POST", "/mcp", world.session, body);
  assert_non_null(strstr(answer, "202 Accepted"));
  free(answer);
}

static void post(worker *self, unsigned to, const char *body) {
  char *answer = mcp_web_ask(&self->web, "POST", world.target[to], "", body);
  assert_non_null(strstr(answer, "202 Accepted"));
  free(answer);
}

static void open_stream(worker *self, mcp_web_conn *stream) {
  mcp_web_connect(&self->web, stream);
  mcp_web_open_sse(stream, "", world.target[self->number]);
}

static size_t count(const char *text, const char *word) {
  size_t found = 0;
  for (const char *at = text; (at = strstr(at, word)); at++) found++;
  return found;
}

static void *work(void *arg) {
  worker *self = arg;
  mcp_web_conn sse, get;
  open_stream(self, &sse);
  mcp_web_connect(&self->web, &get);
  mcp_web_send(&get, "GET", "/mcp", world.session, NULL);
  pthread_barrier_wait(&world.together);
  for (unsigned turn = 0; turn < TURNS; turn++) {
    call(self, turn);
    subscribe(self, turn);
    if (turn % 8 == 0) cancel(self, turn);
    char ping[96];
    snprintf(ping, sizeof ping, "{\"jsonrpc\":\"2.0\",\"id\":\"%u-%u\",\"method\":\"ping\"}",
             self->number, turn);
    post(self, (self->number + turn) % THREADS, ping);
    mcp_web_settle(&sse);
    mcp_web_settle(&get);
  }
  pthread_barrier_wait(&world.together); /* nobody posts any more */
  mcp_web_deliver(&self->web);
  mcp_web_settle(&sse);
  assert_int_equal(count(sse.output, "\"result\":{}"), TURNS);
  pthread_barrier_wait(&world.together);
  mcp_web_disconnect(&get);
  mcp_web_disconnect(&sse);
  return NULL;
}

static void loops_share_sessions_and_streams(void **state) {
  (void)state;
  static worker workers[THREADS];
  mcp_web_open(&world.first, &(mcp_web_opts){.server = {.random = draw}});
  mcp_web_hello(&world.first, "", world.session);
  pthread_barrier_init(&world.together, NULL, THREADS);
  for (unsigned i = 0; i < THREADS; i++) {
    workers[i].number = i;
    mcp_web_open(&workers[i].web,
                 &(mcp_web_opts){.fixture = world.first.fixture, .shared = world.first.table});
    workers[i].number = i;
  }
  for (unsigned i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  unsigned answered = 0, refused = 0;
  for (unsigned i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    answered += workers[i].answered;
    refused += workers[i].refused;
  }
  assert_int_equal(answered + refused, THREADS * TURNS);
  assert_true(answered > 0);
  for (unsigned i = 0; i < THREADS; i++) mcp_web_close(&workers[i].web);
  mcp_web_close(&world.first);
  pthread_barrier_destroy(&world.together);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loops_share_sessions_and_streams)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
