/* test_claims_threads.c - ids in flight of a session: one holder at a time whatever threads do, found in
 * a few steps however many there are and whatever their names, without the lock of all sessions. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, TURNS = 4000, IDS = 16, MANY = 20000 };

static mcp_web web;
static idem__http_session *session;
static _Atomic unsigned held[IDS];
static _Atomic unsigned claimed;

static void on_found(idem__http_session *found, idem_status status, void *user) {
  (void)user;
  assert_int_equal(status, IDEM_OK);
  session = found;
}

static int open_session(void **state) {
  (void)state;
  char line[64];
  mcp_web_open(&web, &(mcp_web_opts){0});
  mcp_web_hello(&web, "", line);
  const char *id = strchr(line, ' ') + 1;
  idem__session_finding finding = {.table = web.table, .principal = "", .found = on_found};
  idem__http_session_find(&finding, (idem__view){id, IDEM__SESSION_ID}, 1);
  assert_non_null(session);
  return 0;
}

static int close_session(void **state) {
  (void)state;
  idem__http_session_unref(session);
  mcp_web_close(&web);
  return 0;
}

static bool claim(idem__session_post *post, const char *key, size_t len) {
  idem__in_flight_lock(session);
  const idem__session_post *holder = idem__claim_holder(session, key, len);
  if (!holder) idem__claim_add(session, post, key, len);
  idem__in_flight_unlock(session);
  return !holder;
}

static void *claim_and_leave(void *arg) {
  unsigned number = *(const unsigned *)arg;
  for (unsigned turn = 0; turn < TURNS; turn++) {
    idem__session_post post = {.endpoint = web.endpoint};
    assert_int_equal(idem__post_join(session, &post), IDEM_OK);
    unsigned id = (turn * (number + 1)) % IDS;
    char key[16];
    size_t len = (size_t)snprintf(key, sizeof key, "id%u", id);
    bool mine = claim(&post, key, len);
    if (mine) {
      assert_int_equal(atomic_fetch_add(&held[id], 1), 0);
      atomic_fetch_add(&claimed, 1);
      atomic_fetch_sub(&held[id], 1);
    }
    idem__post_leave(session, &post);
  }
  return NULL;
}

static void an_id_has_one_holder_at_a_time(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  unsigned numbers[THREADS];
  for (unsigned i = 0; i < THREADS; i++) {
    numbers[i] = i;
    assert_int_equal(pthread_create(&threads[i], NULL, claim_and_leave, &numbers[i]), 0);
  }
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_true(claimed > TURNS);
  assert_int_equal(session->in_flight.claims.count, 0);
  assert_int_equal(session->in_flight.posts.count, 0);
}

/* How far entries lie from where they belong: what finding all of them costs. */
static size_t steps_in(const idem_map *map) {
  size_t steps = 0;
  for (size_t i = 0; i < map->cap; i++)
    if (map->slots[i].value) steps += (i - (size_t)map->slots[i].hash) & (map->cap - 1);
  return steps;
}

static void many_ids_in_flight_are_found_in_a_few_steps(void **state) {
  (void)state;
  static idem__session_post posts[MANY];
  for (unsigned i = 0; i < MANY; i++) {
    char key[16];
    size_t len = (size_t)snprintf(key, sizeof key, "i%u", i << 12);
    posts[i] = (idem__session_post){.endpoint = web.endpoint};
    assert_int_equal(idem__post_join(session, &posts[i]), IDEM_OK);
    assert_true(claim(&posts[i], key, len));
    assert_false(claim(&posts[i / 2], key, len));
  }
  assert_true(steps_in(&session->in_flight.claims) < (size_t)MANY * 2);
  assert_true(steps_in(&session->in_flight.posts) < (size_t)MANY * 2);
  idem__in_flight_lock(session);
  for (unsigned i = 0; i < MANY; i++) {
    uint64_t last = posts[i].first_call + IDEM__CALLS_RESERVED - 1;
    assert_ptr_equal(idem__post_of_call(session, posts[i].first_call), &posts[i]);
    assert_ptr_equal(idem__post_of_call(session, last), &posts[i]);
  }
  assert_null(idem__post_of_call(session, 0));
  assert_null(idem__post_of_call(session, UINT64_MAX));
  idem__in_flight_unlock(session);
  for (unsigned i = 0; i < MANY; i++) idem__post_leave(session, &posts[i]);
  assert_true(session->in_flight.claims.cap <= 64 && session->in_flight.posts.cap <= 64);
}

/* It would wait here for ever if it took the lock that every session's requests take. */
static void claims_wait_for_no_other_session(void **state) {
  (void)state;
  idem__session_post post = {.endpoint = web.endpoint};
  idem__session_table_lock(web.table);
  assert_int_equal(idem__post_join(session, &post), IDEM_OK);
  assert_true(claim(&post, "one", 3));
  assert_true(claim(&post, "an id too long for the room that each POST has for its first", 59));
  assert_false(claim(&post, "one", 3));
  idem__post_leave(session, &post);
  idem__session_table_unlock(web.table);
  assert_int_equal(session->in_flight.claims.count, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_id_has_one_holder_at_a_time),
      cmocka_unit_test(many_ids_in_flight_are_found_in_a_few_steps),
      cmocka_unit_test(claims_wait_for_no_other_session),
  };
  return cmocka_run_group_tests(tests, open_session, close_session);
}
