/* test_turn.c - a peer gets its turn and no more: what takes long is answered all the same, in its order, while others
 * have theirs. */
#include "rpc/rpc.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/rpc.h>
#include <stdio.h>
#include <string.h>

#define MS ((uint64_t)1000000)
enum { WORK_MS = 20, TURN_MS = 30, LINES = 10 };

typedef struct turns {
  fault_alloc memory;
  idem_pool *pool;
  idem_router *router;
  idem_policy policy;
  unsigned late;
} turns;

static uint64_t now_ns;
static unsigned worked, woken;

static uint64_t false_clock(void *ctx) {
  (void)ctx;
  return now_ns;
}

static void work(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  now_ns += WORK_MS * MS;
  worked++;
  idem_reply_json(request, "1", 1);
}

static void on_late(void *user) { ((turns *)user)->late++; }

static void on_output(idem_conn *conn, void *user) {
  (void)conn, (void)user;
  woken++;
}

static void begin(turns *all) {
  idem_router_opts opts = {0};
  *all = (turns){.policy = idem_policy_preset(IDEM_PROFILE_JSONRPC)};
  now_ns = MS;
  worked = woken = 0;
  fault_alloc_init(&all->memory);
  opts.alloc = &all->memory.alloc;
  assert_int_equal(idem_pool_new(&all->memory.alloc, &all->pool), IDEM_OK);
  assert_int_equal(idem_router_new(&opts, &all->router), IDEM_OK);
  assert_int_equal(idem_router_method(all->router, "work", work, NULL), IDEM_OK);
  idem__pool_set_turns(all->pool, TURN_MS * MS, false_clock, on_late, all);
}

static void end(turns *all) {
  idem_router_free(all->router);
  idem_pool_free(all->pool);
  fault_alloc_assert_clean(&all->memory);
}

static idem_conn *open_conn(turns *all) {
  idem_conn *conn;
  idem_conn_opts opts = {.router = all->router,
                         .policy = &all->policy,
                         .alloc = &all->memory.alloc,
                         .pool = all->pool,
                         .now_ns = false_clock,
                         .on_output = on_output};
  assert_int_equal(idem_conn_new(&opts, &conn), IDEM_OK);
  return conn;
}

static size_t put_work(char *out, size_t size, unsigned id, const char *after) {
  return (size_t)snprintf(out, size, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"work\"}%s", id,
                          after);
}

static void ask(idem_conn *conn, unsigned lines) {
  char text[4096];
  size_t len = 0;
  for (unsigned i = 0; i < lines; i++) len += put_work(text + len, sizeof text - len, i, "\n");
  assert_int_equal(idem_conn_feed(conn, text, len), IDEM_OK);
}

/* How many answers have come, which must be those from `first` on. */
static unsigned answers(idem_conn *conn, unsigned first) {
  char all[8192], id[32];
  size_t len = 0;
  idem_chunk chunk;
  while (idem_conn_next_chunk(conn, &chunk)) {
    memcpy(all + len, chunk.data, chunk.len);
    len += chunk.len;
    idem_chunk_free(&chunk);
  }
  all[len] = '\0';
  unsigned count = 0;
  for (const char *at = all; (at = strstr(at, "\"id\":")); at++, count++) {
    int id_len = snprintf(id, sizeof id, "\"id\":%u", first + count);
    assert_memory_equal(at, id, (size_t)id_len);
  }
  return count;
}

static void run_all(const turns *all) {
  while (idem__pool_run_late(all->pool)) {
  }
}

static void lines_beyond_a_turn_wait_for_the_next_one(void **state) {
  (void)state;
  turns all;
  begin(&all);
  idem_conn *conn = open_conn(&all);
  ask(conn, LINES);
  assert_int_equal(answers(conn, 0), 2);
  assert_int_equal(all.late, 1);
  assert_false(idem_conn_want_read(conn));
  assert_true(idem__pool_run_late(all.pool));
  assert_int_equal(answers(conn, 2), 2);
  run_all(&all);
  assert_int_equal(answers(conn, 4), LINES - 4);
  assert_true(idem_conn_want_read(conn));
  assert_int_equal(woken, 4); /* once a turn */
  idem_conn_free(conn);
  end(&all);
}

static void what_comes_meanwhile_and_the_end_wait_too(void **state) {
  (void)state;
  turns all;
  begin(&all);
  idem_conn *conn = open_conn(&all);
  char last[64];
  ask(conn, LINES);
  size_t len = put_work(last, sizeof last, LINES, ""); /* ended by the end of input alone */
  assert_int_equal(idem_conn_feed(conn, last, len), IDEM_OK);
  assert_int_equal(idem_conn_feed_eof(conn), IDEM_OK);
  assert_false(idem_conn_done(conn));
  run_all(&all);
  assert_int_equal(answers(conn, 0), LINES + 1);
  assert_true(idem_conn_done(conn));
  idem_conn_free(conn);
  end(&all);
}

/* One answer: a batch that is left in the middle, wherever it stands, goes on there. */
static void a_batch_that_waited_is_answered_once(void **state) {
  (void)state;
  turns all;
  begin(&all);
  idem_conn *conn = open_conn(&all);
  for (int behind = 0; behind < 2; behind++) {
    char text[4096];
    size_t len = 0;
    unsigned id = 0;
    worked = 0;
    while (id < 2) len += put_work(text + len, sizeof text - len, id++, "\n");
    text[len++] = '[';
    for (; id < LINES; id++)
      len += put_work(text + len, sizeof text - len, id, id + 1 < LINES ? "," : "]\n");
    if (behind) len += put_work(text + len, sizeof text - len, id++, "\n");
    assert_int_equal(idem_conn_feed(conn, text, len), IDEM_OK);
    memset(text, 'x', sizeof text);
    assert_int_equal(worked, 2);
    run_all(&all);
    assert_int_equal(worked, id);
    assert_int_equal(answers(conn, 0), id);
    assert_int_equal(idem_conn_in_flight(conn), 0);
    idem__pool_new_turn(all.pool);
  }
  idem_conn_free(conn);
  end(&all);
}

/* The rest of a frame is there, but its turn is not: its time does not pass meanwhile. */
static void a_frame_that_waits_is_not_late(void **state) {
  (void)state;
  turns all;
  begin(&all);
  all.policy.limits.frame_ms = 50;
  idem_conn *conn = open_conn(&all);
  char text[512], last[128];
  size_t len = put_work(text, sizeof text, 0, "\n"),
         half = put_work(last, sizeof last, 2, "\n") / 2;
  len += put_work(text + len, sizeof text - len, 1, "\n");
  memcpy(text + len, last, half);
  assert_int_equal(idem_conn_feed(conn, text, len + half), IDEM_OK);
  assert_int_equal(idem_conn_feed(conn, last + half, strlen(last) - half), IDEM_OK);
  now_ns += 1000 * MS;
  assert_int_equal(idem_conn_expire(conn), IDEM_OK);
  run_all(&all);
  assert_int_equal(answers(conn, 0), 3);
  idem_conn_free(conn);
  end(&all);
}

/* Out of memory in its turn: whoever hears of its call may free it. */
static void free_it(idem_conn *conn, const idem_response *response, void *user) {
  (void)response;
  *(bool *)user = true;
  idem_conn_free(conn);
}

static void a_conn_that_fails_in_its_turn_may_be_freed(void **state) {
  (void)state;
  turns all;
  bool freed = false;
  begin(&all);
  idem_conn *conn = open_conn(&all);
  assert_int_equal(idem_call(conn, "x", NULL, NULL, free_it, &freed, NULL), IDEM_OK);
  ask(conn, LINES);
  fault_alloc_fail_from(&all.memory, 1);
  run_all(&all);
  fault_alloc_fail_in(&all.memory, 0);
  if (!freed) idem_conn_free(conn);
  end(&all);
}

static void those_who_wait_take_turns_by_message(void **state) {
  (void)state;
  turns all;
  begin(&all);
  idem_conn *long_one = open_conn(&all), *short_one = open_conn(&all);
  ask(long_one, LINES);
  ask(short_one, 1); /* the turn is over before it began */
  assert_int_equal(answers(short_one, 0), 0);
  assert_true(idem__pool_run_late(all.pool));
  assert_int_equal(answers(short_one, 0), 1);
  assert_int_equal(answers(long_one, 0), 3);
  idem__pool_new_turn(all.pool);
  ask(short_one, 1);
  assert_int_equal(answers(short_one, 0), 1);
  idem_conn_free(short_one);
  idem_conn_free(long_one); /* with what waits */
  assert_false(idem__pool_run_late(all.pool));
  end(&all);
}

static void without_turns_all_is_answered_at_once(void **state) {
  (void)state;
  turns all;
  begin(&all);
  idem__pool_set_turns(all.pool, 0, NULL, NULL, NULL);
  idem_conn *conn = open_conn(&all);
  ask(conn, LINES);
  assert_int_equal(answers(conn, 0), LINES);
  idem_conn_free(conn);
  end(&all);
}

static unsigned looks;

static uint64_t counted_clock(void *ctx) {
  looks++;
  return false_clock(ctx);
}

/* As it is at its last tick, of 4 ms. */
static uint64_t coarse_clock(void *ctx) { return false_clock(ctx) / (4 * MS) * (4 * MS); }

static void answer_at_once(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  idem_reply_json(request, "1", 1);
}

/* To look at a clock for each of many short messages takes a tenth of their time. */
static void the_fine_clock_is_read_when_the_coarse_one_has_moved_on(void **state) {
  (void)state;
  turns all;
  begin(&all);
  idem__pool_set_tick(all.pool, coarse_clock);
  assert_int_equal(idem_router_method(all.router, "quick", answer_at_once, NULL), IDEM_OK);
  idem_conn *conn;
  idem_conn_opts opts = {.router = all.router,
                         .policy = &all.policy,
                         .alloc = &all.memory.alloc,
                         .pool = all.pool,
                         .now_ns = counted_clock};
  assert_int_equal(idem_conn_new(&opts, &conn), IDEM_OK);
  char quick[4096];
  size_t len = 0;
  for (unsigned i = 0; i < LINES; i++)
    len += (size_t)snprintf(quick + len, sizeof quick - len,
                            "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"quick\"}\n", i);
  looks = 0;
  assert_int_equal(idem_conn_feed(conn, quick, len), IDEM_OK);
  assert_int_equal(answers(conn, 0), LINES);
  assert_in_range(looks, 1, 3);
  looks = 0;
  idem__pool_new_turn(all.pool);
  ask(conn, LINES); /* they take long, so each is looked after */
  assert_int_equal(answers(conn, 0), 2);
  assert_in_range(looks, 2, 5);
  run_all(&all);
  assert_int_equal(answers(conn, 2), LINES - 2);
  idem_conn_free(conn);
  end(&all);
}

static void hear(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn, (void)params;
  ++*(unsigned *)user;
}

/* What would have had a later turn is not begun any more; whoever asked is told so. */
static void expect_refused(void (*go)(idem_conn *conn)) {
  static const char note[] = "{\"jsonrpc\":\"2.0\",\"method\":\"hear\"}\n";
  turns all;
  unsigned heard = 0;
  begin(&all);
  assert_int_equal(idem_router_notification(all.router, "hear", hear, &heard), IDEM_OK);
  idem_conn *conn = open_conn(&all);
  ask(conn, LINES);
  assert_int_equal(idem_conn_feed(conn, note, sizeof note - 1), IDEM_OK);
  assert_true(idem__conn_waits(conn));
  go(conn);
  assert_int_equal(answers(conn, 0), LINES);
  assert_int_equal(worked, 2);
  assert_int_equal(heard, 0);
  assert_false(idem__conn_waits(conn));
  idem_conn_free(conn);
  end(&all);
}

static void what_waits_at_the_end_is_refused_with_its_id(void **state) {
  (void)state;
  expect_refused(idem_conn_abort);
  expect_refused(idem_conn_close);
}

static void keep(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  idem_request_keep(request);
  *(idem_request **)user = request;
}

static void what_was_held_goes_on_in_turns(void **state) {
  static const char kept_line[] = "{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"keep\"}\n";
  idem_request *kept = NULL;
  turns all;
  (void)state;
  begin(&all);
  all.policy.concurrency = 1;
  assert_int_equal(idem_router_method(all.router, "keep", keep, &kept), IDEM_OK);
  idem_conn *conn = open_conn(&all);
  assert_int_equal(idem_conn_feed(conn, kept_line, sizeof kept_line - 1), IDEM_OK);
  ask(conn, LINES);
  assert_int_equal(worked, 0);
  idem__pool_new_turn(all.pool);
  assert_int_equal(idem_reply_json(kept, "1", 1), IDEM_OK);
  assert_int_equal(answers(conn, 99), 1);
  assert_int_equal(idem_conn_deadline(conn), 0);
  idem_conn_expire(conn);
  assert_int_equal(answers(conn, 0), 2);
  assert_int_not_equal(idem_conn_deadline(conn), 0); /* it is the turn that it waits for */
  run_all(&all);
  assert_int_equal(answers(conn, 2), LINES - 2);
  idem_conn_free(conn);
  end(&all);
}

/* Whoever hears its answer in what is taken in last may free the conn. */
static void a_conn_may_be_freed_while_its_rest_is_refused(void **state) {
  static void (*const goes[])(idem_conn * conn) = {idem_conn_close, idem_conn_abort};
  static const char answer[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n";
  (void)state;
  for (int i = 0; i < 2; i++) {
    turns all;
    idem_chunk chunk;
    bool freed = false;
    begin(&all);
    idem_conn *conn = open_conn(&all);
    assert_int_equal(idem_call(conn, "ask", NULL, NULL, free_it, &freed, NULL), IDEM_OK);
    assert_true(idem_conn_next_chunk(conn, &chunk));
    idem_chunk_free(&chunk);
    ask(conn, LINES);
    assert_int_equal(idem_conn_feed(conn, answer, sizeof answer - 1), IDEM_OK);
    assert_true(idem__conn_waits(conn));
    goes[i](conn);
    assert_true(freed);
    end(&all);
  }
}

/* ------------------------------------------------------------- any mixture */

enum { MIXTURES = 400, MESSAGES = 24, ELEMENTS = 6, MIXED_BYTES = 1 << 15 };

static uint32_t seed;
static unsigned pick(unsigned below) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 16) % below;
}

static void work_a_while(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  now_ns += pick(25) * MS;
  worked++;
  idem_reply_json(request, "1", 1);
}

static size_t put_any(char *out, size_t size, unsigned *id) {
  switch (pick(6)) {
  case 0: return (size_t)snprintf(out, size, "{\"jsonrpc\":\"2.0\",\"method\":\"work\"}");
  case 1:
    return (size_t)snprintf(out, size, "{\"jsonrpc\":\"2.0\",\"id\":\"n%u\",\"method\":7}",
                            (*id)++);
  default:
    return (size_t)snprintf(out, size, "{\"jsonrpc\":\"2.0\",\"id\":\"n%u\",\"method\":\"any\"}",
                            (*id)++);
  }
}

/* Lines of single messages and batches with ids n0, n1, ...; how many ids. */
static unsigned put_mixture(char *out, size_t *len) {
  unsigned id = 0;
  *len = 0;
  for (unsigned i = 0; i < MESSAGES; i++) {
    unsigned elements = pick(2) ? 1 + pick(ELEMENTS) : 0;
    if (!elements) *len += put_any(out + *len, MIXED_BYTES - *len, &id);
    for (unsigned k = 0; k < elements; k++) {
      out[(*len)++] = k ? ',' : '[';
      *len += put_any(out + *len, MIXED_BYTES - *len, &id);
    }
    if (elements) out[(*len)++] = ']';
    out[(*len)++] = '\n';
  }
  return id;
}

static size_t take_output(idem_conn *conn, char *out, size_t len) {
  idem_chunk chunk;
  while (idem_conn_next_chunk(conn, &chunk)) {
    assert_true(len + chunk.len < MIXED_BYTES);
    memcpy(out + len, chunk.data, chunk.len);
    len += chunk.len;
    idem_chunk_free(&chunk);
  }
  out[len] = '\0';
  return len;
}

/* Feeds it in pieces, with turns between some of them, up to `until`. The pieces are gone afterwards. */
static size_t feed_mixture(const turns *all, idem_conn *conn, const char *text, size_t until,
                           char *out) {
  size_t got = 0;
  for (size_t at = 0, n; at < until; at += n) {
    char piece[512];
    n = 1 + pick(sizeof piece);
    if (n > until - at) n = until - at;
    memcpy(piece, text + at, n);
    assert_int_equal(idem_conn_feed(conn, piece, n), IDEM_OK);
    memset(piece, 'x', sizeof piece);
    if (pick(3) == 0) idem__pool_run_late(all->pool);
    if (pick(3) == 0) got = take_output(conn, out, got);
    if (idem_conn_deadline(conn) == 0) idem_conn_expire(conn);
  }
  return got;
}

static void begin_mixture(turns *all, bool with_turns) {
  begin(all);
  if (!with_turns) idem__pool_set_turns(all->pool, 0, NULL, NULL, NULL);
  assert_int_equal(idem_router_method(all->router, "any", work_a_while, NULL), IDEM_OK);
}

static void answer_mixture(uint32_t with, bool with_turns, char *out) {
  static char text[MIXED_BYTES];
  size_t len;
  turns all;
  seed = with;
  begin_mixture(&all, with_turns);
  if (with % 2) { /* what is not read holds others back, refusals too */
    all.policy.concurrency = 1;
    all.policy.limits.queued_output_bytes = 1000;
  }
  idem_conn *conn = open_conn(&all);
  put_mixture(text, &len);
  size_t got = feed_mixture(&all, conn, text, len, out);
  assert_int_equal(idem_conn_feed_eof(conn), IDEM_OK);
  for (int round = 0; round < 100 && !idem_conn_done(conn); round++) {
    run_all(&all);
    got = take_output(conn, out, got);
    if (idem_conn_deadline(conn) == 0) idem_conn_expire(conn);
  }
  assert_true(idem_conn_done(conn));
  idem_conn_free(conn);
  end(&all);
}

static void any_mixture_is_answered_as_without_turns(void **state) {
  static char with[MIXED_BYTES], without[MIXED_BYTES];
  (void)state;
  for (uint32_t i = 0; i < MIXTURES; i++) {
    answer_mixture(i, true, with);
    answer_mixture(i, false, without);
    size_t same = 0;
    while (with[same] && with[same] == without[same]) same++;
    if (with[same] != without[same])
      fail_msg("mixture %u: %.200s\ninstead of %.200s", (unsigned)i, with + same, without + same);
  }
}

/* What came whole is answered once, whether it was begun or not. */
static void cut_mixture_off(uint32_t with, void (*go)(idem_conn *conn)) {
  static char text[MIXED_BYTES], out[MIXED_BYTES];
  size_t len;
  turns all;
  seed = with;
  begin_mixture(&all, true);
  idem_conn *conn = open_conn(&all);
  unsigned ids = put_mixture(text, &len), lines = 1 + pick(MESSAGES);
  size_t until = 0;
  while (lines--) until = (size_t)(strchr(text + until, '\n') - text) + 1;
  size_t got = feed_mixture(&all, conn, text, until, out);
  go(conn);
  take_output(conn, out, got);
  assert_int_equal(idem_conn_in_flight(conn), 0);
  text[until] = '\0';
  for (unsigned id = 0; id < ids; id++) {
    char name[16];
    snprintf(name, sizeof name, "\"n%u\"", id);
    const char *first = strstr(out, name);
    if (!first != !strstr(text, name) || (first && strstr(first + 1, name)))
      fail_msg("mixture %u, id %s: %s", (unsigned)with, name, out);
  }
  idem_conn_free(conn);
  end(&all);
}

static void any_mixture_that_is_cut_off_is_answered_once(void **state) {
  (void)state;
  for (uint32_t i = 0; i < MIXTURES; i++)
    cut_mixture_off(i, i % 2 ? idem_conn_abort : idem_conn_close);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_beyond_a_turn_wait_for_the_next_one),
      cmocka_unit_test(what_comes_meanwhile_and_the_end_wait_too),
      cmocka_unit_test(a_batch_that_waited_is_answered_once),
      cmocka_unit_test(a_frame_that_waits_is_not_late),
      cmocka_unit_test(a_conn_that_fails_in_its_turn_may_be_freed),
      cmocka_unit_test(those_who_wait_take_turns_by_message),
      cmocka_unit_test(what_waits_at_the_end_is_refused_with_its_id),
      cmocka_unit_test(a_conn_may_be_freed_while_its_rest_is_refused),
      cmocka_unit_test(what_was_held_goes_on_in_turns),
      cmocka_unit_test(any_mixture_is_answered_as_without_turns),
      cmocka_unit_test(any_mixture_that_is_cut_off_is_answered_once),
      cmocka_unit_test(without_turns_all_is_answered_at_once),
      cmocka_unit_test(the_fine_clock_is_read_when_the_coarse_one_has_moved_on)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
