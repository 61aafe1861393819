/* test_each.c - a walk through the members of an object has a turn for each of them in their order,
 * and none where there is no object. */
#include "../../support/unit.h"

#include <idem/json.h>

#include <string.h>

/* The keys and the numbers behind them, one after the other; "" where there was no turn. */
static void walk_gives(yyjson_val *object, const char *expected) {
  yyjson_val *key, *value;
  size_t i, count, turns = 0;
  char seen[64] = "";
  idem_each_member(object, i, count, key, value) {
    assert_int_equal(i, turns++);
    strncat(seen, yyjson_get_str(key), 8);
    strncat(seen, yyjson_get_raw(value), 8);
  }
  assert_int_equal(turns, count);
  assert_string_equal(seen, expected);
}

static void walk_through_text_gives(const char *text, const char *expected) {
  yyjson_doc *doc = yyjson_read(text, strlen(text), YYJSON_READ_NUMBER_AS_RAW);
  assert_non_null(doc);
  walk_gives(yyjson_doc_get_root(doc), expected);
  yyjson_doc_free(doc);
}

static void each_member_has_its_turn_in_order(void **state) {
  (void)state;
  walk_through_text_gives("{\"a\":1}", "a1");
  walk_through_text_gives("{\"b\":2,\"a\":1,\"b\":3}", "b2a1b3");
}

static void what_is_missing_empty_or_no_object_has_no_turn(void **state) {
  (void)state;
  walk_gives(NULL, "");
  walk_through_text_gives("{}", "");
  walk_through_text_gives("[1,2]", "");
  walk_through_text_gives("7", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_member_has_its_turn_in_order),
      cmocka_unit_test(what_is_missing_empty_or_no_object_has_no_turn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
