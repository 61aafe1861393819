/* test_version.c - the version agrees with the header, and every status has a name of its own. */
#include "base/base.h"
#include "support/unit.h"

#include <stdio.h>

static void the_version_is_the_headers(void **state) {
  (void)state;
  char wanted[32];
  snprintf(wanted, sizeof wanted, "%d.%d.%d", IDEM_VERSION_MAJOR, IDEM_VERSION_MINOR,
           IDEM_VERSION_PATCH);
  assert_string_equal(idem_version(), IDEM_VERSION);
  assert_string_equal(idem_version(), wanted);
}

static void every_status_has_its_own_text(void **state) {
  (void)state;
  for (int a = IDEM_OK; a >= IDEM_E_SYS; a--) {
    assert_string_not_equal(idem_status_text((idem_status)a), "unknown status");
    for (int b = IDEM_OK; b > a; b--)
      assert_string_not_equal(idem_status_text((idem_status)a), idem_status_text((idem_status)b));
  }
  assert_string_equal(idem_status_text((idem_status)-99), "unknown status");
  assert_string_equal(idem_status_text(IDEM_E_NOMEM), "no memory");
  assert_string_equal(idem_status_text(IDEM_E_LIMIT), "limit reached");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_version_is_the_headers),
      cmocka_unit_test(every_status_has_its_own_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
