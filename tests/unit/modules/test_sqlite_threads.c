/* test_sqlite_threads.c - no change of a SQLite store is lost among threads: see store_threads.h. */
#include "modules/sqlite/sqlite.h"
#include "store_threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern const idem__sqlite_module idem__sqlite_module_table;

static void no_change_is_lost_among_threads(void **state) {
  char folder[] = "/tmp/idem-sqlite-XXXXXX", path[64], why[256];
  idem__store *store;
  (void)state;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/store.db", folder);
  idem__sqlite_opts opts = {.path = path, .sync = IDEM__SQLITE_OFF};
  assert_int_equal(idem__sqlite_module_table.open(&opts, &store, why, sizeof why), IDEM_OK);
  expect_no_change_lost(store);
  idem__store_unref(store);
  assert_int_equal(unlink(path), 0); /* the last to close it took the others away */
  assert_int_equal(rmdir(folder), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_change_is_lost_among_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
