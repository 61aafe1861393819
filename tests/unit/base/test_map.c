/* test_map.c - the map finds what was put, whatever was removed in between, and its hash spreads. */
#include "base/base.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>

enum { KEYS = 5000 };
static char keys[KEYS][24];

static int make_keys(void **state) {
  (void)state;
  for (int i = 0; i < KEYS; i++) snprintf(keys[i], sizeof keys[i], "%s%d", i % 2 ? "" : "key/", i);
  return 0;
}

static idem_status put(idem_map *map, int i) {
  return idem_map_put(map, keys[i], strlen(keys[i]), keys[i]);
}
static void *get(const idem_map *map, int i) { return idem_map_get(map, keys[i], strlen(keys[i])); }
static void *take(idem_map *map, int i) { return idem_map_remove(map, keys[i], strlen(keys[i])); }

static void an_empty_map_holds_nothing(void **state) {
  (void)state;
  idem_map map;
  idem_map_init(&map, NULL, 1);
  size_t pos = 0;
  assert_null(get(&map, 0));
  assert_null(take(&map, 0));
  assert_null(idem_map_next(&map, &pos));
  idem_map_deinit(&map);
}

static void what_is_put_is_found_until_removed(void **state) {
  (void)state;
  idem_map map;
  idem_map_init(&map, NULL, 42);
  for (int i = 0; i < KEYS; i++) assert_int_equal(put(&map, i), IDEM_OK);
  assert_true(map.count * 4 <= map.cap * 3);
  for (int i = 0; i < KEYS; i++) assert_ptr_equal(get(&map, i), keys[i]);
  for (int i = 0; i < KEYS; i += 2) assert_ptr_equal(take(&map, i), keys[i]);
  for (int i = 0; i < KEYS; i++) assert_ptr_equal(get(&map, i), i % 2 ? keys[i] : NULL);
  assert_int_equal(map.count, KEYS / 2);
  idem_map_deinit(&map);
}

static void a_second_put_of_a_key_is_refused(void **state) {
  (void)state;
  idem_map map;
  int other;
  idem_map_init(&map, NULL, 42);
  assert_int_equal(put(&map, 1), IDEM_OK);
  assert_int_equal(idem_map_put(&map, "1", 1, &other), IDEM_E_EXISTS);
  assert_ptr_equal(get(&map, 1), keys[1]);
  assert_int_equal(idem_map_put(&map, "x", 1, NULL), IDEM_E_INVAL);
  assert_int_equal(map.count, 1);
  idem_map_deinit(&map);
}

static void keys_are_bytes(void **state) {
  (void)state;
  idem_map map;
  int a, b, c, d;
  idem_map_init(&map, NULL, 42);
  assert_int_equal(idem_map_put(&map, NULL, 0, &a), IDEM_OK);
  assert_int_equal(idem_map_put(&map, "\0", 1, &b), IDEM_OK);
  assert_int_equal(idem_map_put(&map, "\0\0", 2, &c), IDEM_OK);
  assert_int_equal(idem_map_put(&map, "x\0y", 3, &d), IDEM_OK);
  assert_ptr_equal(idem_map_get(&map, "", 0), &a);
  assert_ptr_equal(idem_map_get(&map, "\0", 1), &b);
  assert_ptr_equal(idem_map_get(&map, "\0\0", 2), &c);
  assert_ptr_equal(idem_map_get(&map, "x\0y", 3), &d);
  assert_null(idem_map_get(&map, "x\0z", 3));
  idem_map_deinit(&map);
}

static void it_holds_at_most_max_entries(void **state) {
  (void)state;
  idem_map map;
  idem_map_init(&map, NULL, 42);
  assert_int_equal(map.max, IDEM_MAP_MAX);
  map.max = 3;
  for (int i = 0; i < 3; i++) assert_int_equal(put(&map, i), IDEM_OK);
  assert_int_equal(put(&map, 3), IDEM_E_LIMIT);
  assert_int_equal(put(&map, 2), IDEM_E_EXISTS);
  take(&map, 0);
  assert_int_equal(put(&map, 3), IDEM_OK);
  idem_map_deinit(&map);
}

static void a_walk_meets_every_entry_once(void **state) {
  (void)state;
  idem_map map;
  idem_map_init(&map, NULL, 42);
  static int seen[100];
  for (int i = 0; i < 100; i++) put(&map, i);
  size_t pos = 0;
  for (char *key; (key = idem_map_next(&map, &pos));)
    seen[(key - keys[0]) / (long)sizeof keys[0]]++;
  for (int i = 0; i < 100; i++) assert_int_equal(seen[i], 1);
  idem_map_deinit(&map);
}

static void a_long_random_life_agrees_with_a_plain_table(void **state) {
  (void)state;
  static bool present[KEYS];
  idem_map map;
  idem_map_init(&map, NULL, 7);
  uint64_t random = 88172645463325252u;
  for (int step = 0; step < 200000; step++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    int i = (int)(random % 600);
    assert_int_equal(get(&map, i) != NULL, present[i]);
    if (present[i])
      assert_ptr_equal(take(&map, i), keys[i]);
    else
      assert_int_equal(put(&map, i), IDEM_OK);
    present[i] = !present[i];
  }
  assert_true(map.cap <= 1024);
  idem_map_deinit(&map);
}

static void the_seed_changes_every_hash(void **state) {
  (void)state;
  for (size_t len = 0; len < 100; len++) {
    char text[100];
    memset(text, 'a', sizeof text);
    assert_true(idem__hash(text, len, 1) != idem__hash(text, len, 2));
    assert_true(idem__hash(text, len, 1) == idem__hash(text, len, 1));
  }
}

/* Flips each bit of keys of every length and counts the bits of the hash that follow: half of them
 * should, on average, for every length class of the function. */
static void every_bit_of_a_key_changes_about_half_of_the_hash(void **state) {
  (void)state;
  for (size_t len = 1; len <= 70; len++) {
    char text[70];
    for (size_t i = 0; i < len; i++) text[i] = (char)(i * 37 + len);
    uint64_t plain = idem__hash(text, len, 99);
    unsigned long changed = 0;
    for (size_t bit = 0; bit < len * 8; bit++) {
      text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
      uint64_t hash = idem__hash(text, len, 99);
      assert_true(hash != plain);
      changed += (unsigned long)__builtin_popcountll(hash ^ plain);
      text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
    }
    double average = (double)changed / (double)(len * 8);
    assert_true(average > 28 && average < 36);
  }
}

static void counter_ids_share_no_hash_and_few_slots(void **state) {
  (void)state;
  static unsigned char used[8192];
  unsigned occupied = 0;
  for (int i = 0; i < 8192; i++) {
    char id[16];
    int len = snprintf(id, sizeof id, "%d", i);
    unsigned char *slot = &used[idem__hash(id, (size_t)len, 5) & 8191];
    occupied += !*slot;
    *slot = 1;
  }
  /* A random function leaves 1/e of the slots empty: 5178 of 8192 are taken. */
  assert_true(occupied > 5000 && occupied < 5350);
}

static void fill_a_map(fault_alloc *fault, void *user) {
  (void)user;
  idem_map map;
  idem_map_init(&map, &fault->alloc, 3);
  for (int i = 0; i < 200; i++) {
    if (put(&map, i) == IDEM_OK)
      assert_ptr_equal(get(&map, i), keys[i]);
    else
      assert_null(get(&map, i));
  }
  idem_map_deinit(&map);
}

static void no_want_of_memory_leaks(void **state) {
  (void)state;
  assert_int_equal(fault_alloc_sweep(fill_a_map, NULL, 100), 8); /* 4 slots, 8, ... 512 */
  assert_true(fault_alloc_sweep_ever_after(fill_a_map, NULL, 100) > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_map_holds_nothing),
      cmocka_unit_test(what_is_put_is_found_until_removed),
      cmocka_unit_test(a_second_put_of_a_key_is_refused),
      cmocka_unit_test(keys_are_bytes),
      cmocka_unit_test(it_holds_at_most_max_entries),
      cmocka_unit_test(a_walk_meets_every_entry_once),
      cmocka_unit_test(a_long_random_life_agrees_with_a_plain_table),
      cmocka_unit_test(the_seed_changes_every_hash),
      cmocka_unit_test(every_bit_of_a_key_changes_about_half_of_the_hash),
      cmocka_unit_test(counter_ids_share_no_hash_and_few_slots),
      cmocka_unit_test(no_want_of_memory_leaks),
  };
  idem__hash_set_secret(1, 2); /* averages of a few bits must be the same in each run */
  return cmocka_run_group_tests(tests, make_keys, NULL);
}
