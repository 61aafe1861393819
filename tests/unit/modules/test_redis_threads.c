/* test_redis_threads.c - no change of a Redis store is lost among threads: see store_threads.h. */
#include "modules/redis/redis.h"
#include "store_threads.h"
#include "support/redis_server.h"
#include "uv/redis.h"

#include <stdio.h>

extern const idem__redis_module idem__redis_module_table;

static void no_change_is_lost_among_threads(void **state) {
  char text[128], why[256];
  redis_server server;
  idem__redis_url url;
  idem__store *store;
  (void)state;
  assert_true(redis_server_start(&server, NULL));
  snprintf(text, sizeof text, "redis+unix:%s?parts=3", server.socket);
  assert_int_equal(idem__redis_url_parse(text, &url, why, sizeof why), IDEM_OK);
  assert_int_equal(
      idem__redis_open(&idem__redis_module_table, &url, NULL, NULL, &store, NULL, why, sizeof why),
      IDEM_OK);
  expect_no_change_lost(store);
  idem__store_unref(store);
  redis_server_stop(&server);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_change_is_lost_among_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
