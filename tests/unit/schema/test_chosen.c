/* test_chosen.c - values chosen so that they would collide cost no more steps than others. The
 * multiply-and-fold hash that schemas once had let a peer choose: a mantissa equal to its constant
 * made every product zero, whatever the seed, and names were indexed without a seed. */
#include "schema_help.h"

#define MANY 3000
#define NAMES 600
#define FOLD_A 0x9e3779b97f4a7c15u
#define FOLD_B 0xd6e8feb86659fd93u

/* Few steps for each value, whatever the values are. */
static void costs_few_steps(const char *schema, const char *instance, unsigned values) {
  judge j = judge_new(compile(schema));
  j.check.max_steps = (uint64_t)values * 16;
  bool good = accepts(&j, instance);
  if (j.status != IDEM_OK) fail_msg("%s", j.result.limit ? j.result.limit : "no limit");
  assert_true(good);
  judge_free(&j);
}

static char *numbers(const char *mantissa) {
  char *text = malloc((size_t)MANY * 40 + 3), *at = text;
  for (int i = 0; i < MANY; i++) at += sprintf(at, "%c%se%d", i ? ',' : '[', mantissa, i + 1);
  strcpy(at, "]");
  return text;
}

static void numbers_with_the_mantissa_of_a_constant(void **state) {
  (void)state;
  static const char *const mantissas[] = {"11400714819323198485", "15485863", "7046029254386353131",
                                          "-11400714819323198485", "114007148193231984850001"};
  for (size_t i = 0; i < sizeof mantissas / sizeof mantissas[0]; i++) {
    char *text = numbers(mantissas[i]);
    costs_few_steps("{\"uniqueItems\":true}", text, MANY);
    free(text);
  }
}

/* Digits that repeat, cut at every place: one number each. */
static void long_numbers_of_one_digit(void **state) {
  (void)state;
  char *text = malloc((size_t)MANY * 100), *at = text;
  *at++ = '[';
  for (int i = 0; i < MANY; i++) {
    for (int n = 0; n < 20 + i % 60; n++) *at++ = '7';
    at += sprintf(at, "e%d,", i / 60 * 100);
  }
  at[-1] = ']';
  *at = 0;
  costs_few_steps("{\"uniqueItems\":true}", text, MANY);
  free(text);
}

/* The place of a short name in a table of 2048, as it once was. */
__extension__ typedef unsigned __int128 wide;
static uint64_t former_slot(const char *name, size_t len) {
  uint64_t head, tail;
  memcpy(&head, name, 8);
  memcpy(&tail, name + len - 8, 8);
  wide product = (wide)(head ^ FOLD_A) * (tail ^ len ^ FOLD_B);
  return ((uint64_t)product ^ (uint64_t)(product >> 64)) & 2047;
}

static char *object_of_former_twins(bool backwards) {
  static char names[NAMES][16];
  char *text = malloc((size_t)NAMES * 32), *at = text;
  for (unsigned i = 0, count = 0; count < NAMES; i++) {
    int len = snprintf(names[count], sizeof names[count], "name%08x", i);
    count += former_slot(names[count], (size_t)len) == 77;
  }
  for (int i = 0; i < NAMES; i++)
    at += sprintf(at, "%c\"%s\":%d", i ? ',' : '{', names[backwards ? NAMES - 1 - i : i],
                  backwards ? NAMES - 1 - i : i);
  strcpy(at, "}");
  return text;
}

static void objects_whose_names_once_shared_a_slot(void **state) {
  (void)state;
  char *there = object_of_former_twins(false), *back = object_of_former_twins(true);
  char *schema = malloc(strlen(there) + 20);
  sprintf(schema, "{\"const\":%s}", there);
  costs_few_steps(schema, back, NAMES);
  free(schema);
  free(there);
  free(back);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_with_the_mantissa_of_a_constant),
      cmocka_unit_test(long_numbers_of_one_digit),
      cmocka_unit_test(objects_whose_names_once_shared_a_slot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
