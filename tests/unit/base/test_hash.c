/* test_hash.c - the keyed hash: the published function, a secret of each process, and keys that were
 * chosen against one secret and are harmless under another. */
#include "base/base.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Hashed in a process of its own, before anything else was. */
static uint64_t hash_elsewhere(void) {
  int ends[2];
  uint64_t hash = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    hash = idem__hash("id", 2, 0);
    _exit(write(ends[1], &hash, sizeof hash) != (ssize_t)sizeof hash);
  }
  close(ends[1]);
  assert_int_equal(read(ends[0], &hash, sizeof hash), sizeof hash);
  close(ends[0]);
  assert_int_equal(waitpid(child, NULL, 0), child);
  return hash;
}

static void each_process_has_a_secret_of_its_own(void **state) {
  (void)state;
  uint64_t first = hash_elsewhere();
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  assert_true(first == hash_elsewhere()); /* there, what one run found the next finds again */
#else
  assert_true(first != hash_elsewhere());
  assert_true(first != idem__hash("id", 2, 0));
#endif
}

/* Python's hash of bytes is the same function, under a key of zeros with PYTHONHASHSEED=0. */
static void it_is_siphash_1_3(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t hash;
  } known[] = {{"a", 0x407448d2b89b1813},         {"ab", 0x555508cbc6add439},
               {"abcdefg", 0x6db12aae9070f506},   {"abcdefgh", 0x3f7b849c0b8e35ea},
               {"abcdefghi", 0xf89b34a3d11eb6e5}, {"the quick brown fox jumps", 0xc98b97e4f70042}};
  idem__hash_set_secret(0, 0);
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    assert_true(idem__hash(known[i].text, strlen(known[i].text), 0) == known[i].hash);
}

static void no_byte_is_left_out_and_none_read_beyond(void **state) {
  (void)state;
  for (size_t len = 0; len <= 40; len++) {
    char *text = calloc(1, len ? len : 1); /* the sanitizer watches both ends */
    uint64_t plain = idem__hash(text, len, 0);
    for (size_t i = 0; i < len; i++) {
      text[i] = 1;
      assert_true(idem__hash(text, len, 0) != plain);
      text[i] = 0;
    }
    free(text);
  }
}

#define CHOSEN 512
static char chosen[CHOSEN][24];
static size_t chosen_len[CHOSEN];

/* Names that share their place in a table of a thousand, under the secret of now. */
static void choose_keys(void) {
  size_t count = 0;
  for (unsigned i = 0; count < CHOSEN; i++) {
    int len = snprintf(chosen[count], sizeof chosen[count], "id-%u", i);
    chosen_len[count] = (size_t)len;
    count += (idem__hash(chosen[count], (size_t)len, 0) & 1023) == 0;
  }
}

/* How far all entries lie from where they belong: what a walk over all of them costs. */
static size_t steps_of_chosen(void) {
  idem_map map;
  size_t steps = 0;
  idem_map_init(&map, NULL, 0);
  for (size_t i = 0; i < CHOSEN; i++)
    assert_int_equal(idem_map_put(&map, chosen[i], chosen_len[i], chosen[i]), IDEM_OK);
  for (size_t i = 0; i < map.cap; i++)
    if (map.slots[i].value) steps += (i - (size_t)map.slots[i].hash) & (map.cap - 1);
  idem_map_deinit(&map);
  return steps;
}

static void keys_chosen_against_one_secret_do_not_collide_under_another(void **state) {
  (void)state;
  idem__hash_set_secret(1, 2);
  choose_keys();
  assert_true(steps_of_chosen() > CHOSEN * 100);
  for (uint64_t secret = 3; secret < 20; secret++) {
    idem__hash_set_secret(secret, 2);
    assert_true(steps_of_chosen() < CHOSEN * 2);
    idem__hash_set_secret(1, secret);
    assert_true(steps_of_chosen() < CHOSEN * 2);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_process_has_a_secret_of_its_own), /* first: nothing was hashed yet */
      cmocka_unit_test(it_is_siphash_1_3),
      cmocka_unit_test(no_byte_is_left_out_and_none_read_beyond),
      cmocka_unit_test(keys_chosen_against_one_secret_do_not_collide_under_another),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
