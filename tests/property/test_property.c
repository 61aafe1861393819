/* test_property.c - two conns that serve and call each other, acted on at random.
 * Requests, notifications, batches, cancellations, late replies, drops, double replies, deadlines,
 * closes, aborts and conns freed with requests out, in any order and at any split. What crosses the
 * wire is watched: an id is answered at most once for each time it was asked, and exactly once where
 * nothing ended early; a notification never; each call's function runs exactly once; nothing leaks.
 * IDEM_SEED plays one seed again; IDEM_RUNS says how many seeds to play. */
#include "support/fault_alloc.h"

#include <idem/mcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_KEPT = 256, MAX_IDS = 4096, STEPS = 200, WIRE_MAX = 1 << 20 };

/* --------------------------------------------------------------- random */

static uint64_t random_state;
static uint64_t current_seed;
static size_t checked; /* worlds in which every question had to be answered */

static uint64_t next_random(void) {
  random_state += 0x9e3779b97f4a7c15u;
  uint64_t z = random_state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static size_t below(size_t n) { return (size_t)(next_random() % n); }
static bool chance(unsigned percent) { return below(100) < percent; }

static _Noreturn void fail(const char *what, const char *detail) {
  fprintf(stderr, "property: %s: %s\nplay it again with IDEM_SEED=%llu\n", what, detail,
          (unsigned long long)current_seed);
  exit(1);
}

/* ---------------------------------------------------------------- sides */

/* What one direction of the wire has seen, by id. Ids are small numbers, written in several ways. */
typedef struct book {
  unsigned asked[MAX_IDS];    /* requests sent with this id */
  unsigned answered[MAX_IDS]; /* answers that came back */
  unsigned cancelled[MAX_IDS];
  size_t null_answers;
} book;

typedef struct side {
  idem_conn *conn;
  idem_request *kept[MAX_KEPT];
  size_t kept_count;
  char wire[WIRE_MAX]; /* bytes on their way to this side */
  size_t wire_len;
  bool failed;
  size_t calls_started, calls_ended;
  uint64_t last_call;
  size_t raw_id; /* the next id of messages the test itself writes */
  book asks;     /* questions this side asked */
  struct world *world;
} side;

typedef struct world {
  fault_alloc memory;
  idem_policy policy;
  idem_router *router;
  side sides[2];
  uint64_t now_ms;
  bool ended_early; /* something was closed, aborted or freed */
} world;

static side *other(side *s) {
  return s == &s->world->sides[0] ? &s->world->sides[1] : &s->world->sides[0];
}

static side *side_of(idem_conn *conn) { return idem_conn_user(conn); }

/* ------------------------------------------------------ watching a wire */

static size_t read_id(const char *text) {
  const char *at = strstr(text, "\"id\":");
  if (!at) return SIZE_MAX;
  at += 5;
  if (strncmp(at, "null", 4) == 0) return SIZE_MAX - 1;
  if (*at == '"') return SIZE_MAX - 2;
  double value = strtod(at, NULL);
  return value >= 0 && value < MAX_IDS ? (size_t)value : SIZE_MAX - 2;
}

/* One answer object, which belongs to a question that `asker` asked. */
static void watch_answer(side *asker, const char *text) {
  size_t id = read_id(text);
  if (id == SIZE_MAX) fail("an answer without an id", text);
  if (id == SIZE_MAX - 1) {
    asker->asks.null_answers++;
    return;
  }
  if (id >= MAX_IDS) fail("an answer with an id nobody used", text);
  if (++asker->asks.answered[id] > asker->asks.asked[id]) {
    fail("an id was answered more often than asked", text);
  }
}

/* A cancellation may leave its question without an answer. */
static void note_notification(side *asker, yyjson_val *message) {
  const idem_cancel_form *form = &asker->world->policy.cancel;
  if (!form->method || !yyjson_equals_str(yyjson_obj_get(message, "method"), form->method)) return;
  yyjson_val *id = yyjson_obj_get(yyjson_obj_get(message, "params"), form->id_member);
  if (yyjson_get_uint(id) < MAX_IDS) asker->asks.cancelled[yyjson_get_uint(id)]++;
}

static void note_call(side *asker, const char *text, size_t id) {
  if (id >= MAX_IDS) fail("a call with a strange id", text);
  asker->asks.asked[id]++;
}

/* A message that `from` sends: its own calls, and answers to the other side's questions. */
static void watch(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                  void *user) {
  (void)user;
  if (direction != IDEM_OUT) return;
  side *from = side_of(conn);
  char *text = strndup(message, len);
  if (!text) abort();
  yyjson_doc *doc = yyjson_read(text, len, 0);
  yyjson_val *root = yyjson_doc_get_root(doc);
  if (!root) fail("something that is not JSON was sent", text);
  if (yyjson_is_arr(root)) {
    size_t i, max;
    yyjson_val *item;
    if (!yyjson_arr_size(root)) fail("an empty array was sent", text);
    yyjson_arr_foreach(root, i, max, item) {
      char *part = yyjson_val_write(item, 0, NULL);
      watch_answer(other(from), part);
      free(part);
    }
  } else if (yyjson_obj_get(root, "method")) {
    if (yyjson_obj_get(root, "id")) {
      note_call(from, text, read_id(text));
    } else {
      note_notification(from, root);
    }
  } else {
    watch_answer(other(from), text);
  }
  yyjson_doc_free(doc);
  free(text);
}

/* -------------------------------------------------------------- methods */

static void reply_somehow(idem_request *request) {
  switch (below(6)) {
  case 0: idem_reply(request, NULL); break;
  case 1: idem_reply_json(request, "{\"a\": [1, 2]}", 13); break;
  case 2: idem_reply_json(request, "not json", 8); break;
  case 3: idem_reply_error(request, (int64_t)below(70000) - 35000, "message", NULL); break;
  case 4: idem_request_drop(request); break;
  default: idem_reply_fault(request, (idem_fault)below(11), "subject"); break;
  }
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  side *s = user;
  if (chance(50)) return; /* the kept handle is ended later */
  for (size_t i = 0; i < s->kept_count; i++) {
    if (s->kept[i] != request) continue;
    s->kept[i] = s->kept[--s->kept_count];
    reply_somehow(request);
    return;
  }
}

static void call_somehow(side *s);

static void serve(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  side *s = side_of(idem_request_conn(request));
  size_t what = below(10);
  if (what == 0 && chance(30)) call_somehow(s);
  if (what == 1 && chance(5)) {
    s->world->ended_early = true;
    idem_conn_close(s->conn);
  }
  if (what < 3) return; /* forgotten */
  if (what < 7 && s->kept_count < MAX_KEPT) {
    idem_request_keep(request);
    if (chance(70)) idem_request_on_cancel(request, on_cancel, s);
    s->kept[s->kept_count++] = request;
    return;
  }
  reply_somehow(request);
  if (chance(20)) reply_somehow(request);
}

static void heard(idem_conn *conn, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  if (chance(10)) idem_notify_json(conn, "noted", NULL, 0);
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  side *s = user;
  if (response->status == IDEM_OK && !response->result) fail("a result without a value", "");
  s->calls_ended++;
  if (!s->failed && chance(10)) call_somehow(s);
}

/* -------------------------------------------------------------- actions */

static void call_somehow(side *s) {
  idem_call_opts opts = {.timeout_ms = chance(20) ? 1 + below(50) : 0};
  if (!s->conn) return;
  uint64_t id;
  idem_status status = idem_call_json(s->conn, chance(80) ? "serve" : "nope",
                                      chance(50) ? "[1]" : NULL, 3, &opts, on_response, s, &id);
  if (status != IDEM_OK) return;
  s->calls_started++;
  s->last_call = id;
}

static void put_wire(side *to, const char *bytes, size_t len) {
  if (to->wire_len + len > WIRE_MAX) return;
  memcpy(to->wire + to->wire_len, bytes, len);
  to->wire_len += len;
}

static void put_message(side *to, const char *text) {
  char head[64];
  int n = 0;
  if (to->world->policy.framing == IDEM_FRAMING_CONTENT_LENGTH) {
    n = snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", strlen(text));
  }
  put_wire(to, head, (size_t)n);
  put_wire(to, text, strlen(text));
  if (to->world->policy.framing == IDEM_FRAMING_LINE) put_wire(to, "\n", 1);
}

/* Raw questions use ids from 1000 up, so that they never meet those of calls. */
static int write_request(side *asker, char *out, size_t size) {
  size_t id = 1000 + asker->raw_id++ % 50;
  char token[32];
  switch (below(4)) {
  case 0: snprintf(token, sizeof token, "%zu", id); break;
  case 1: snprintf(token, sizeof token, "%zu.0", id); break;
  case 2: snprintf(token, sizeof token, "%zu.00", id); break;
  default: snprintf(token, sizeof token, "%zue0", id); break;
  }
  asker->asks.asked[id]++;
  return snprintf(out, size, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"%s\"}", token,
                  chance(90) ? "serve" : "nope");
}

static void send_raw_request(side *asker) {
  char text[256];
  write_request(asker, text, sizeof text);
  put_message(other(asker), text);
}

static void send_raw_batch(side *asker) {
  char text[4096] = "[";
  size_t len = 1, count = 1 + below(6);
  if (!asker->world->policy.batches) return;
  for (size_t i = 0; i < count; i++) {
    if (i) len += (size_t)snprintf(text + len, sizeof text - len, ",");
    if (chance(70)) {
      len += (size_t)write_request(asker, text + len, sizeof text - len);
    } else {
      static const char *const others[] = {"{\"jsonrpc\":\"2.0\",\"method\":\"heard\"}", "5", "{}",
                                           "{\"jsonrpc\":\"2.0\",\"id\":4000,\"result\":1}"};
      len += (size_t)snprintf(text + len, sizeof text - len, "%s", others[below(4)]);
    }
  }
  snprintf(text + len, sizeof text - len, "]");
  put_message(other(asker), text);
}

static void send_cancel(side *asker) {
  const idem_cancel_form *form = &asker->world->policy.cancel;
  char text[256];
  size_t id = 1000 + below(50);
  if (!form->method) return;
  asker->asks.cancelled[id]++;
  snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":{\"%s\":%zu}}",
           form->method, form->id_member, id);
  put_message(other(asker), text);
}

static void send_junk(side *asker) {
  static const char *const junk[] = {"{",
                                     "[]",
                                     "null",
                                     "{\"id\":{},\"method\":1}",
                                     "{\"jsonrpc\":\"2.0\",\"id\":4001,\"result\":2}",
                                     "\"\\ud800\""};
  put_message(other(asker), junk[below(6)]);
}

static void reply_late(side *s) {
  if (!s->kept_count) return;
  size_t at = below(s->kept_count);
  idem_request *request = s->kept[at];
  s->kept[at] = s->kept[--s->kept_count];
  reply_somehow(request);
}

static void collect(side *s) {
  idem_chunk chunk;
  while (s->conn && idem_conn_next_chunk(s->conn, &chunk)) {
    put_wire(other(s), chunk.data, chunk.len);
    idem_chunk_free(&chunk);
  }
}

static void feed_some(side *s) {
  if (!s->conn || !s->wire_len) return;
  size_t len = chance(50) ? s->wire_len : 1 + below(s->wire_len);
  char *piece = malloc(len);
  if (!piece) abort();
  memcpy(piece, s->wire, len);
  s->wire_len -= len;
  memmove(s->wire, s->wire + len, s->wire_len);
  if (idem_conn_feed(s->conn, piece, len) != IDEM_OK) s->failed = true;
  free(piece);
}

static void run_due(side *s) {
  for (int turns = 0; s->conn && turns < 100; turns++) {
    if (idem_conn_deadline(s->conn) > s->world->now_ms) return;
    if (idem_conn_expire(s->conn) != IDEM_OK) {
      s->failed = true;
      return;
    }
    collect(s);
  }
}

static void end_early(side *s, size_t how) {
  s->world->ended_early = true;
  if (!s->conn) return;
  switch (how) {
  case 0: idem_conn_close(s->conn); break;
  case 1: idem_conn_abort(s->conn); break;
  case 2: idem_conn_feed_eof(s->conn); break;
  default:
    s->failed = true;
    idem_conn_free(s->conn);
    s->conn = NULL;
    break;
  }
}

static void turn(world *w) {
  for (int i = 0; i < 2; i++) {
    collect(&w->sides[i]);
    run_due(&w->sides[i]);
    collect(&w->sides[i]);
  }
}

static void act(world *w) {
  side *s = &w->sides[below(2)];
  switch (below(16)) {
  case 0:
  case 1: call_somehow(s); break;
  case 2:
    if (s->conn) idem_notify_json(s->conn, "heard", "{}", 2);
    break;
  case 3:
    if (s->conn && s->last_call && chance(30)) idem_cancel(s->conn, s->last_call);
    break;
  case 4:
  case 5: send_raw_request(s); break;
  case 6: send_raw_batch(s); break;
  case 7: send_cancel(s); break;
  case 8: send_junk(s); break;
  case 9:
  case 10: reply_late(s); break;
  case 11: w->now_ms += below(20); break;
  case 12:
    if (chance(3)) end_early(s, below(4));
    break;
  default: feed_some(s); break;
  }
  turn(w);
}

/* ---------------------------------------------------------------- worlds */

static uint64_t now_ns(void *ctx) { return ((world *)ctx)->now_ms * 1000000u; }

static void check(idem_status status, const char *what) {
  if (status != IDEM_OK) fail(what, idem_status_text(status));
}

static void choose_policy(world *w) {
  w->policy = idem_policy_preset((idem_profile)below(3));
  if (chance(50)) w->policy.framing = IDEM_FRAMING_LINE;
  if (chance(50)) w->policy.batches = true;
  if (chance(30)) w->policy.concurrency = below(4);
  if (chance(20)) w->policy.limits.in_flight = 1 + below(8);
  if (chance(20)) w->policy.limits.request_ms = 1 + below(100);
  if (chance(10)) w->policy.limits.queued_output_bytes = 300 + below(3000);
  if (chance(10)) w->policy.limits.queued_input_bytes = below(20000);
  if (chance(10)) w->policy.limits.in_flight_id_bytes = below(64);
  w->policy.array_params = true; /* calls use them */
}

static void open_world(world *w) {
  fault_alloc_init(&w->memory);
  choose_policy(w);
  w->now_ms = 1000;
  idem_router_opts router_opts = {.alloc = &w->memory.alloc, .seed = next_random()};
  check(idem_router_new(&router_opts, &w->router), "router");
  check(idem_router_method(w->router, "serve", serve, w), "method");
  check(idem_router_notification(w->router, "heard", heard, w), "notification");
  for (int i = 0; i < 2; i++) {
    side *s = &w->sides[i];
    s->world = w;
    idem_conn_opts opts = {.router = w->router,
                           .policy = &w->policy,
                           .alloc = &w->memory.alloc,
                           .now_ns = now_ns,
                           .clock_ctx = w,
                           .on_trace = watch,
                           .user = s,
                           .seed = next_random()};
    check(idem_conn_new(&opts, &s->conn), "conn");
  }
}

static bool busy(const side *s) { return s->kept_count || (s->wire_len && s->conn && !s->failed); }

/* Lets everything that is under way come to its end. */
static void settle(world *w) {
  for (int turns = 0; turns < 10000; turns++) {
    turn(w);
    if (!busy(&w->sides[0]) && !busy(&w->sides[1])) return;
    for (int i = 0; i < 2; i++) {
      reply_late(&w->sides[i]);
      feed_some(&w->sides[i]);
    }
  }
  fail("two peers did not come to rest", "");
}

/* Where nothing ended early every question has its answer. */
static void check_answers(world *w) {
  for (int i = 0; i < 2; i++) {
    side *s = &w->sides[i];
    if (w->ended_early || s->failed || other(s)->failed) continue;
    for (size_t id = 0; id < MAX_IDS; id++) {
      bool excused = s->asks.cancelled[id] && !w->policy.cancel.answer_code;
      if (s->asks.answered[id] == s->asks.asked[id] || excused) continue;
      char text[64];
      snprintf(text, sizeof text, "id %zu, asked %u, answered %u", id, s->asks.asked[id],
               s->asks.answered[id]);
      fail("a question was not answered exactly once", text);
    }
    checked++;
    if (idem_conn_in_flight(s->conn)) fail("a settled conn still owes an answer", "");
  }
}

static void close_world(world *w) {
  for (int i = 0; i < 2; i++) {
    side *s = &w->sides[i];
    idem_conn *conn = s->conn;
    s->failed = true;
    s->conn = NULL;
    if (conn) idem_conn_free(conn);
  }
  for (int i = 0; i < 2; i++) {
    side *s = &w->sides[i];
    while (s->kept_count) reply_late(s);
    if (s->calls_started != s->calls_ended) fail("a call did not end exactly once", "");
  }
  idem_router_free(w->router);
  if (w->memory.live_blocks) fail("memory leaked", "");
}

static void play(uint64_t seed) {
  world *w = calloc(1, sizeof *w);
  if (!w) abort();
  current_seed = random_state = seed;
  open_world(w);
  size_t steps = 1 + below(STEPS);
  for (size_t i = 0; i < steps; i++) act(w);
  if (chance(80)) {
    settle(w);
    check_answers(w);
  }
  close_world(w);
  free(w);
}

int main(void) {
  const char *only = getenv("IDEM_SEED");
  const char *wanted = getenv("IDEM_RUNS");
  if (only) {
    play(strtoull(only, NULL, 10));
    return 0;
  }
  size_t runs = wanted ? strtoul(wanted, NULL, 10) : 2000;
  uint64_t fresh = (uint64_t)time(NULL) << 20;
  for (size_t i = 0; i < runs; i++) play(i);
  printf("property: %zu fixed seeds, then %zu from %llu\n", runs, runs, (unsigned long long)fresh);
  for (size_t i = 0; i < runs; i++) play(fresh + i);
  printf("property: all answers were there on %zu of %zu sides\n", checked, 4 * runs);
  return checked > runs ? 0 : 1;
}
