/* test_number.c - numbers are decimals, compared and divided without rounding. */
#include "schema/number.h"
#include "schema_help.h"

static number read(const char *text) { return idem__number_parse(text, strlen(text)); }

static uint64_t hash(const number *n) {
  idem__hasher hasher = idem__hash_begin(7);
  idem__number_hash(&hasher, n);
  return idem__hash_end(hasher);
}

static void equal_values_have_one_form(void **state) {
  (void)state;
  static const char *const pairs[][2] = {{"1", "1.0"},
                                         {"100", "1e2"},
                                         {"-0", "0"},
                                         {"0e99", "0.000"},
                                         {"1.50", "15e-1"},
                                         {"9223372036854775807", "9223372036854775807.0"},
                                         {"18446744073709551616", "1.8446744073709551616e19"},
                                         {"1e400", "10e399"},
                                         {"-9223372036854775808", "-9223372036854775808.00"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    number a = read(pairs[i][0]), b = read(pairs[i][1]);
    assert_true(idem__number_equal(&a, &b));
    assert_int_equal(idem__number_compare(&a, &b), 0);
    assert_true(hash(&a) == hash(&b));
  }
}

static void order_is_exact_beyond_doubles(void **state) {
  (void)state;
  static const char *const rising[] = {"-1e400",
                                       "-123456789012345678901",
                                       "-123456789012345678900",
                                       "-1.5",
                                       "-1",
                                       "-1e-400",
                                       "0",
                                       "1e-400",
                                       "0.1",
                                       "0.10000000000000000000000001",
                                       "1",
                                       "9007199254740992",
                                       "9007199254740993",
                                       "9007199254740993.5",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "123456789012345678901234567890",
                                       "123456789012345678901234567891",
                                       "1e400"};
  size_t count = sizeof rising / sizeof *rising;
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < count; j++) {
      number a = read(rising[i]), b = read(rising[j]);
      int order = idem__number_compare(&a, &b);
      assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
    }
}

static void multiples_are_decided_in_decimal(void **state) {
  (void)state;
  static const struct {
    const char *value, *divisor;
    bool yes;
  } cases[] = {{"0.0075", "0.0001", true},
               {"0.00751", "0.0001", false},
               {"19.99", "0.01", true},
               {"1.1", "0.1", true},
               {"0.3", "0.1", true},
               {"1e308", "0.123456789", false},
               {"1e308", "0.5", true},
               {"12345678901234567890123", "3", true},
               {"12345678901234567890124", "3", false},
               {"24691357802469135780246", "12345678901234567890123", true},
               {"24691357802469135780247", "12345678901234567890123", false},
               {"1e30", "1e20", true},
               {"100", "1e20", false},
               {"1e-30", "3e-31", false},
               {"-4.5", "1.5", true},
               {"0", "1e400", true},
               {"-9223372036854775808", "2", true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    number value = read(cases[i].value), divisor = read(cases[i].divisor);
    bool limit = false;
    assert_true(idem__number_multiple(&value, &divisor, &limit) == cases[i].yes);
    assert_false(limit);
  }
}

static void doubles_stand_for_their_shortest_spelling(void **state) {
  (void)state;
  static const double reals[] = {0.0075, 0.1, 1e21, 5e-324, 1.7976931348623157e308, -2.5e-7};
  static const char *const spelled[] = {
      "0.0075", "0.1", "1e21", "5e-324", "1.7976931348623157e308", "-0.00000025"};
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
    yyjson_val value = {.tag = YYJSON_TYPE_NUM | YYJSON_SUBTYPE_REAL, .uni.f64 = reals[i]};
    number a = idem__number_of(&value), b = read(spelled[i]);
    assert_true(idem__number_equal(&a, &b));
  }
}

static void what_is_no_number_is_bad(void **state) {
  (void)state;
  static const char *const bad[] = {"", "-", ".5", "5.", "1e", "1e+", "x", "1x", "--1", "1.2.3"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(read(bad[i]).form, NUMBER_BAD);
}

static void endless_exponents_do_not_overflow(void **state) {
  (void)state;
  number huge = read("1e99999999999999999999999999"), tiny = read("1e-99999999999999999999999");
  number one = read("1");
  assert_true(idem__number_compare(&huge, &one) > 0);
  assert_true(idem__number_compare(&tiny, &one) < 0);
  bool limit = false;
  number seven = read("7");
  idem__number_multiple(&huge, &seven, &limit);
  assert_true(idem__number_is_integer(&huge));
}

static void work_beyond_reason_is_a_limit(void **state) {
  (void)state;
  char digits[400];
  memset(digits, '7', sizeof digits - 1);
  digits[sizeof digits - 1] = 0;
  number long_divisor = read(digits), value = read("1e400");
  bool limit = false;
  assert_false(idem__number_multiple(&value, &long_divisor, &limit));
  assert_true(limit);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_values_have_one_form),
      cmocka_unit_test(order_is_exact_beyond_doubles),
      cmocka_unit_test(multiples_are_decided_in_decimal),
      cmocka_unit_test(doubles_stand_for_their_shortest_spelling),
      cmocka_unit_test(what_is_no_number_is_bad),
      cmocka_unit_test(endless_exponents_do_not_overflow),
      cmocka_unit_test(work_beyond_reason_is_a_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
