/* test_never.c - sessions and tasks on a store that answers later, in odd orders and sometimes never: whoever
 * waits has an answer within the time a request may wait, its own or a refusal, and nothing is left behind. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define WAIT_MS 14000 /* a request waits for the store for less */
#define METHOD(name, params)                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":41,\"method\":\"" name "\",\"params\":" params "}"
#define HELLO                                                                                      \
  METHOD("initialize", "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":"   \
                       "{\"name\":\"t\",\"version\":\"1\"}}")
#define TASK(tool) METHOD("tools/call", "{\"name\":\"" tool "\",\"arguments\":{},\"task\":{}}")
#define OF_TASK(method) METHOD(method, "{\"taskId\":\"%s\"}")
#define TOKEN "Authorization: Bearer alice\r\n"

typedef struct world {
  mcp_web web;
  char session[128]; /* "": there is none */
  char task[33];     /* the last one that was told of */
  uint64_t chance;
  unsigned answered, refused;
} world;

static unsigned any(world *w, unsigned below) {
  w->chance ^= w->chance << 13;
  w->chance ^= w->chance >> 7;
  w->chance ^= w->chance << 17;
  return (unsigned)((w->chance >> 11) % below);
}

/* What `mark` stands before, up to `end`. */
static bool take_text(const char *answer, const char *mark, const char *end, char *text,
                      size_t size) {
  const char *at = strstr(answer, mark);
  if (at) snprintf(text, size, "%.*s", (int)strcspn(at + strlen(mark), end), at + strlen(mark));
  return at != NULL;
}

/* The answer, which comes in time and is either one or says that the store is not to be had. */
static char *ask(world *w, const char *method, const char *body) {
  mcp_web_conn conn;
  mcp_web_connect(&w->web, &conn);
  mcp_web_send(&conn, method, "/mcp", *w->session ? w->session : TOKEN, body);
  for (unsigned passed = 0; !strstr(conn.output, "\r\n\r\n"); passed += 500) {
    if (passed > WAIT_MS) fail_msg("no answer to %s %s", method, body ? body : "");
    w->web.now_ms += 500;
    mcp_web_settle(&conn);
  }
  bool refused = strstr(conn.output, " 503 ") != NULL;
  if (refused) assert_non_null(strstr(conn.output, "\"reason\":\"unavailable\""));
  if (body && strstr(body, "\"id\"")) assert_non_null(strstr(conn.output, "\"id\":41,"));
  w->refused += refused;
  w->answered += !refused;
  char *output = conn.output;
  idem__http_conn_free(conn.conn);
  return output;
}

static void hello(world *w) {
  char id[64];
  char *answer = ask(w, "POST", HELLO);
  if (take_text(answer, "Mcp-Session-Id: ", "\r", id, sizeof id))
    snprintf(w->session, sizeof w->session, "Mcp-Session-Id: %s\r\n" TOKEN, id);
  free(answer);
}

static void leave(world *w) {
  free(ask(w, "DELETE", NULL));
  *w->session = '\0'; /* ended, or nobody knows: either way a client begins anew */
}

static void ask_any(world *w) {
  static const char *const questions[] = {
      METHOD("ping", "{}"),
      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
      METHOD("logging/setLevel", "{\"level\":\"info\"}"),
      METHOD("resources/subscribe", "{\"uri\":\"x:1\"}"),
      METHOD("resources/unsubscribe", "{\"uri\":\"x:1\"}"),
      METHOD("tasks/list", "{}"),
      TASK("job"),
      TASK("job_fail"),
      TASK("progress"),
      OF_TASK("tasks/get"),
      OF_TASK("tasks/result"),
      OF_TASK("tasks/cancel"),
  };
  char body[512];
  const char *question = questions[any(w, sizeof questions / sizeof *questions)];
  const char *slot = strstr(question, "%s");
  snprintf(body, sizeof body, "%.*s%s%s", slot ? (int)(slot - question) : (int)strlen(question),
           question, slot ? w->task : "", slot ? slot + 2 : "");
  char *answer = ask(w, "POST", body);
  take_text(answer, "\"taskId\":\"", "\"", w->task, sizeof w->task);
  free(answer);
}

static void live(world *w, uint64_t seed) {
  later_store_opts later = {.seed = seed, .never_in = 5};
  w->chance = seed * 2654435761u + 1;
  *w->session = *w->task = '\0';
  mcp_web_open(&w->web, &(mcp_web_opts){.later = &later});
  for (int i = 0; i < 60; i++) {
    if (!*w->session)
      hello(w);
    else if (any(w, 12) == 0)
      leave(w);
    else
      ask_any(w);
  }
  for (int i = 0; i < 120; i++) {
    w->web.now_ms += 500;
    mcp_web_deliver(&w->web);
  }
  assert_int_equal(idem__store_queue_waiting(w->web.endpoint->queue), 0);
  /* What is left renews the lease of its node. */
  assert_true(idem__store_queue_waiting(w->web.mcp->store_queue) <= 2);
  mcp_web_close(&w->web);
}

static void a_store_that_sometimes_never_answers_holds_nobody_up(void **state) {
  (void)state;
  static world w;
  for (uint64_t seed = 1; seed <= 20; seed++) live(&w, seed);
  assert_true(w.refused > 50);
  assert_true(w.answered > w.refused);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_store_that_sometimes_never_answers_holds_nobody_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
