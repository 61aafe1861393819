/* test_replay.c - proofs that were shown are known until none of them would be taken again; and a flood of one caller's, or of many's,
 * makes nobody's be forgotten. */
#include "auth/proof.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>

#define LONGEST 91u
#define NOW 1000000u

static void number(uint8_t out[IDEM_SHA256_BYTES], uint64_t n) {
  idem_sha256 sha;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, &n, sizeof n);
  idem_sha256_end(&sha, out);
}

static idem__replay add(idem__replays *replays, uint64_t n, const char *owner, uint64_t now_s,
                        uint64_t ends_s) {
  uint8_t bytes[IDEM_SHA256_BYTES];
  number(bytes, n);
  return idem__replays_add(replays, bytes, owner, now_s, ends_s);
}

static void a_proof_is_good_once_while_it_would_be_taken(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__replays *replays = idem__replays_new(&alloc, LONGEST, 1 << 20, 7);
  /* Each lasts as long as it says, wherever in the window it was made. */
  for (uint64_t lasts = 1; lasts <= LONGEST; lasts++) {
    uint64_t now = NOW + lasts * 1000;
    assert_int_equal(add(replays, lasts, "a", now, now + lasts), IDEM__REPLAY_NEW);
    for (uint64_t later = 0; later <= lasts; later++)
      assert_int_equal(add(replays, lasts, later % 2 ? "a" : "b", now + later, now + lasts),
                       IDEM__REPLAY_SEEN);
  }
  idem__replays_free(replays);
}

static void what_is_past_takes_no_room(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__replays *replays = idem__replays_new(&alloc, LONGEST, 1 << 20, 7);
  for (uint64_t i = 0; i < 5000; i++)
    assert_int_equal(add(replays, i, i % 2 ? "a" : "b", NOW + i / 100, NOW + i / 100 + 61),
                     IDEM__REPLAY_NEW);
  assert_int_equal(idem__replays_count(replays), 5000);
  assert_int_equal(add(replays, 9999, "c", NOW + 500, NOW + 561), IDEM__REPLAY_NEW);
  assert_int_equal(idem__replays_count(replays), 1);
  assert_true(idem__replays_bytes(replays) < 1000);
  idem__replays_free(replays);
}

static void nothing_is_forgotten_in_a_flood(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__replays *replays = idem__replays_new(&alloc, LONGEST, 1 << 20, 7);
  uint64_t flooded = 0;
  assert_int_equal(add(replays, 1, "victim", NOW, NOW + 61), IDEM__REPLAY_NEW);
  while (add(replays, 100 + flooded, "flood", NOW, NOW + 61) == IDEM__REPLAY_NEW) flooded++;
  /* Half of the room, and no more however long it goes on. */
  assert_in_range(flooded, 10000, 11000);
  assert_int_equal(add(replays, 99, "flood", NOW, NOW + 61), IDEM__REPLAY_SHARE);
  assert_int_equal(add(replays, 1, "victim", NOW, NOW + 61), IDEM__REPLAY_SEEN);
  for (uint64_t i = 0; i < flooded; i++)
    assert_int_equal(add(replays, 100 + i, "flood", NOW + 60, NOW + 61), IDEM__REPLAY_SEEN);
  for (uint64_t i = 0; i < 2000; i++) /* others go on as if nothing were */
    assert_int_equal(add(replays, 1000000 + i, "victim", NOW + 1, NOW + 62), IDEM__REPLAY_NEW);
  assert_true(idem__replays_bytes(replays) <= 1 << 20);
  assert_int_equal(add(replays, 2000000, "flood", NOW + 200, NOW + 261), IDEM__REPLAY_NEW);
  idem__replays_free(replays);
}

static void many_that_flood_leave_room_for_the_next(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__replays *replays = idem__replays_new(&alloc, LONGEST, 1 << 20, 7);
  uint64_t n = 0;
  for (int i = 0; i < 20; i++) {
    char name[24];
    size_t had = 0;
    snprintf(name, sizeof name, "flood%d", i);
    while (add(replays, n++, name, NOW, NOW + 61) == IDEM__REPLAY_NEW) had++;
    /* Each finds half of what the others left. */
    size_t room = (1 << 20) - idem__replays_bytes(replays);
    assert_true(had > 0 || room < 512);
  }
  assert_true(idem__replays_bytes(replays) <= 1 << 20);
  idem__replays_free(replays);
}

static void where_there_is_no_room_the_next_is_refused(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__replays *replays = idem__replays_new(&alloc, LONGEST, 4096, 7);
  idem__replay last = IDEM__REPLAY_NEW;
  uint64_t n = 0;
  for (; last == IDEM__REPLAY_NEW || last == IDEM__REPLAY_SHARE; n++) {
    char name[32];
    snprintf(name, sizeof name, "%u", (unsigned)n);
    last = add(replays, n, name, NOW, NOW + 61);
  }
  assert_int_equal(last, IDEM__REPLAY_FULL);
  assert_true(idem__replays_bytes(replays) <= 4096);
  assert_int_equal(add(replays, 0, "0", NOW, NOW + 61), IDEM__REPLAY_SEEN);
  idem__replays_free(replays);
}

static void a_clock_that_goes_back_makes_nothing_be_forgotten(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__replays *replays = idem__replays_new(&alloc, LONGEST, 1 << 20, 7);
  assert_int_equal(add(replays, 1, "a", NOW, NOW + 61), IDEM__REPLAY_NEW);
  for (uint64_t back = 0; back < 1000; back += 13) {
    assert_int_equal(add(replays, 1000 + back, "a", NOW - back, NOW - back + 61), IDEM__REPLAY_NEW);
    assert_int_equal(add(replays, 1, "a", NOW - back, NOW + 61), IDEM__REPLAY_SEEN);
  }
  assert_int_equal(add(replays, 1, "a", NOW + 61, NOW + 61), IDEM__REPLAY_SEEN);
  idem__replays_free(replays);
}

static void add_some(fault_alloc *fault, void *user) {
  idem__replays *replays = idem__replays_new(&fault->alloc, LONGEST, 1 << 20, 7);
  (void)user;
  for (uint64_t i = 0; replays && i < 60; i++) {
    const char *owner = i % 3 ? "a" : "b";
    idem__replay first = add(replays, i % 40, owner, NOW + i, NOW + i + 61);
    /* What was let in is known; what was not can come again. */
    assert_int_equal(first == IDEM__REPLAY_FULL ||
                         add(replays, i % 40, owner, NOW + i, NOW + i + 61) == IDEM__REPLAY_SEEN,
                     true);
  }
  idem__replays_free(replays);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(add_some, NULL, 500) > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_proof_is_good_once_while_it_would_be_taken),
      cmocka_unit_test(what_is_past_takes_no_room),
      cmocka_unit_test(nothing_is_forgotten_in_a_flood),
      cmocka_unit_test(many_that_flood_leave_room_for_the_next),
      cmocka_unit_test(where_there_is_no_room_the_next_is_refused),
      cmocka_unit_test(a_clock_that_goes_back_makes_nothing_be_forgotten),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
