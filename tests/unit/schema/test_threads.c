/* test_threads.c - one compiled schema serves many threads, each with its own context. */
#include "schema_help.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 500 };

static idem_schema *shared;

static void *work(void *out) {
  idem_schema_ctx *ctx;
  idem_schema_result result;
  size_t *right = out;
  if (idem_schema_ctx_new(NULL, &ctx) != IDEM_OK) return NULL;
  for (int i = 0; i < ROUNDS; i++) {
    static const char good[] = "{\"id\":\"abab\",\"n\":[1,2,3,4,5,6,7,8,9,10]}";
    static const char bad[] = "{\"id\":\"abac\",\"n\":[1,2,3,4,5,6,7,8,9,1]}";
    idem_schema_validate_text(shared, ctx, good, sizeof good - 1, NULL, &result);
    *right += result.valid;
    idem_schema_validate_text(shared, ctx, bad, sizeof bad - 1, NULL, &result);
    *right += !result.valid && strstr(result.errors[0].sentence, "value.id") != NULL;
  }
  idem_schema_ctx_free(ctx);
  return NULL;
}

static void threads_share_a_program(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  size_t right[THREADS] = {0};
  shared =
      compile("{\"properties\":{\"id\":{\"pattern\":\"^(a|b)+$\"},\"n\":{\"uniqueItems\":true,"
              "\"items\":{\"$ref\":\"#/$defs/n\"}}},\"$defs\":{\"n\":{\"type\":\"integer\"}}}");
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, work, &right[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(right[i], 2 * ROUNDS);
  }
  idem_schema_free(shared);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(threads_share_a_program)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
