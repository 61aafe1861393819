/* test_repeat.c - of members with one name the last one stays, in every object of a document, and what is around them says what it
 * said. However many there are, the time is in proportion. */
#include "../../support/unit.h"

#include "json/json.h"

#include <stdlib.h>

static char *kept(const char *json) {
  yyjson_doc *doc = yyjson_read(json, strlen(json), YYJSON_READ_BIGNUM_AS_RAW);
  assert_non_null(doc);
  assert_int_equal(idem__json_keep_last(doc, doc->root), IDEM_OK);
  yyjson_val *end = unsafe_yyjson_get_next(doc->root);
  assert_ptr_equal(end, doc->root + doc->val_read);
  char *says = yyjson_val_write(doc->root, 0, NULL);
  yyjson_doc_free(doc);
  return says;
}

static void expect_kept(const char *json, const char *expected) {
  char *says = kept(json);
  assert_string_equal(says, expected);
  free(says);
}

static void the_last_one_stays_at_its_place(void **state) {
  (void)state;
  expect_kept("{\"a\":1,\"b\":2,\"a\":3}", "{\"b\":2,\"a\":3}");
  expect_kept("{\"a\":1,\"a\":2,\"a\":3}", "{\"a\":3}");
  expect_kept("{\"a\":1,\"\\u0061\":2}", "{\"a\":2}");
  expect_kept("{\"\":1,\"\":2}", "{\"\":2}");
  expect_kept("{\"a\\u0000b\":1,\"a\\u0000b\":2,\"a\\u0000c\":3}",
              "{\"a\\u0000b\":2,\"a\\u0000c\":3}");
}

static void whole_values_go_and_their_neighbours_stay(void **state) {
  (void)state;
  expect_kept("[{\"a\":{\"x\":[1,{}]},\"b\":[],\"a\":null},[2],{\"c\":{\"d\":1,\"d\":[3,4]}},5]",
              "[{\"b\":[],\"a\":null},[2],{\"c\":{\"d\":[3,4]}},5]");
  expect_kept("{\"a\":{\"b\":1,\"b\":2},\"a\":{\"c\":3,\"c\":{\"e\":1,\"e\":2}},\"z\":{}}",
              "{\"a\":{\"c\":{\"e\":2}},\"z\":{}}");
}

static void without_repetition_nothing_changes(void **state) {
  (void)state;
  static const char *const texts[] = {"{}",
                                      "[]",
                                      "7",
                                      "\"a\"",
                                      "{\"ab\":1,\"ba\":2,\"aa\":3,\"bb\":[{\"ab\":{}}]}",
                                      "{\"A\":1,\"a\":2}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) expect_kept(texts[i], texts[i]);
}

/* An object of `count` names, all of them twice. */
static char *many(size_t count) {
  char *text = malloc(count * 48 + 3), *at = text;
  assert_non_null(text);
  for (size_t round = 1; round <= 2; round++)
    for (size_t i = 0; i < count; i++)
      at += sprintf(at, "%c\"n%zu\":%zu", at == text ? '{' : ',', i, i * 10 + round);
  memcpy(at, "}", 2);
  return text;
}

static void many_members_are_looked_at_once_each(void **state) {
  (void)state;
  static const size_t counts[] = {7, 8, 9, 16, 17, 100, 200000};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    char *text = many(counts[i]);
    yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
    assert_int_equal(idem__json_keep_last(doc, doc->root), IDEM_OK);
    assert_int_equal(yyjson_obj_size(doc->root), counts[i]);
    yyjson_val *key = unsafe_yyjson_get_first(doc->root);
    for (size_t n = 0; n < counts[i]; n++, key += 2)
      assert_int_equal(yyjson_get_uint(key + 1), n * 10 + 2);
    yyjson_doc_free(doc);
    free(text);
  }
}

static void the_deepest_document_is_mended(void **state) {
  (void)state;
  enum { DEPTH = IDEM__JSON_DEPTH_MAX - 1 };
  char *text = malloc(DEPTH * 2 + 32), *at = text;
  for (size_t i = 0; i < DEPTH; i++) *at++ = '[';
  memcpy(at, "{\"a\":1,\"a\":2}", 13), at += 13;
  for (size_t i = 0; i < DEPTH; i++) *at++ = ']';
  *at = '\0';
  char *says = kept(text);
  assert_memory_equal(says + DEPTH, "{\"a\":2}]", 8);
  assert_int_equal(strlen(says), 2 * DEPTH + 7);
  free(says);
  free(text);
}

static void too_little_memory_is_said(void **state) {
  (void)state;
  char *text = many(20);
  idem_alloc alloc = {0};
  alloc = idem__alloc_or_default(&alloc);
  idem__arena arena;
  idem_status status;
  idem__arena_init(&arena, &alloc, NULL, 0, (size_t)1 << 20);
  yyjson_doc *doc = idem__json_read(text, strlen(text), &arena, &status);
  assert_non_null(doc);
  size_t taken = arena.piece_bytes;
  arena.limit = taken + 16;
  assert_int_equal(idem__json_keep_last(doc, doc->root), IDEM_E_NOMEM);
  assert_true(arena.over_limit);
  arena.limit = (size_t)1 << 20;
  assert_int_equal(idem__json_keep_last(doc, doc->root), IDEM_OK);
  assert_int_equal(arena.piece_bytes, taken);
  idem__arena_deinit(&arena);
  free(text);
}

/* What a long message is looked through for: the same as above, but for its own members, and its depth. */
static void expect_looked(const char *json, size_t outer, idem_status expected, const char *left) {
  yyjson_doc *doc = yyjson_read(json, strlen(json), 0);
  assert_non_null(doc);
  idem_status status = idem__json_look_through(doc, outer, 4);
  assert_int_equal(status, expected);
  if (status == IDEM_E_EXISTS) idem__json_drop_marked(doc);
  char *says = yyjson_val_write(doc->root, 0, NULL);
  if (left) assert_string_equal(says, left);
  free(says);
  yyjson_doc_free(doc);
}

static void a_look_through_leaves_the_outer_levels(void **state) {
  (void)state;
  expect_looked("{\"a\":1,\"a\":{\"b\":2,\"b\":3}}", 0, IDEM_E_EXISTS, "{\"a\":{\"b\":3}}");
  expect_looked("{\"a\":1,\"a\":{\"b\":2,\"b\":3}}", 1, IDEM_E_EXISTS, "{\"a\":1,\"a\":{\"b\":3}}");
  expect_looked("[{\"a\":1,\"a\":{\"b\":2,\"b\":3}},[{\"c\":1,\"c\":2}]]", 2, IDEM_E_EXISTS,
                "[{\"a\":1,\"a\":{\"b\":3}},[{\"c\":2}]]");
  expect_looked("{\"a\":1,\"a\":2}", 1, IDEM_OK, "{\"a\":1,\"a\":2}");
}

static void a_look_through_sees_how_deep_it_nests(void **state) {
  (void)state;
  expect_looked("[[[[1]]],{\"a\":{\"b\":{}}}]", 1, IDEM_OK, "[[[[1]]],{\"a\":{\"b\":{}}}]");
  expect_looked("[[[[[]]]]]", 1, IDEM_E_LIMIT, NULL);
  expect_looked("[1,[],{\"x\":1,\"a\":{\"y\":2,\"b\":{\"c\":[1]}}}]", 1, IDEM_E_LIMIT, NULL);
  /* behind members that are there twice, and inside one that will go */
  expect_looked("{\"p\":{\"a\":[[[1]]],\"a\":1}}", 1, IDEM_E_LIMIT, NULL);
  expect_looked("{\"p\":{\"a\":1,\"a\":[[[1]]]}}", 1, IDEM_E_LIMIT, NULL);
  expect_looked("{\"p\":{\"a\":1,\"b\":{},\"a\":[[1]]}}", 1, IDEM_E_EXISTS,
                "{\"p\":{\"b\":{},\"a\":[[1]]}}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_last_one_stays_at_its_place),
      cmocka_unit_test(whole_values_go_and_their_neighbours_stay),
      cmocka_unit_test(without_repetition_nothing_changes),
      cmocka_unit_test(many_members_are_looked_at_once_each),
      cmocka_unit_test(the_deepest_document_is_mended),
      cmocka_unit_test(too_little_memory_is_said),
      cmocka_unit_test(a_look_through_leaves_the_outer_levels),
      cmocka_unit_test(a_look_through_sees_how_deep_it_nests),
  };
  return cmocka_run_group_tests_name("json.repeat", tests, NULL, NULL);
}
