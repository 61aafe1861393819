/* test_uritemplate.c - templates of every level are read back, nothing else matches, and no template
 * or URI takes long. */
#include "mcp/uritemplate.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdlib.h>

enum { TEXT_MAX = 16384 };

static idem_status parse_status(const char *text) {
  idem__uri_template *pattern;
  idem_status status = idem__uri_template_parse(NULL, text, &pattern);
  if (status == IDEM_OK) idem__uri_template_free(pattern, NULL);
  return status;
}
#define PARSES(text) assert_int_equal(parse_status(text), IDEM_OK)
#define REFUSED(text) assert_int_equal(parse_status(text), IDEM_E_INVAL)

static void describe(const idem__uri_variable *variables, size_t count, idem_buf *out) {
  for (size_t i = 0; i < count; i++) {
    if (i) idem_buf_puts(out, " ");
    idem_buf_put(out, variables[i].name, variables[i].name_len);
    idem_buf_puts(out, "=");
    idem_buf_put(out, variables[i].value, strlen(variables[i].value));
  }
}

/* What a match gives, as "name=value name=value"; "no" where there is none. */
static void expect(const char *text, const char *uri, const char *wanted) {
  idem__uri_template *pattern;
  idem__arena arena;
  idem_buf got;
  idem__uri_variable *variables = NULL;
  size_t count = 0;
  assert_int_equal(idem__uri_template_parse(NULL, text, &pattern), IDEM_OK);
  idem__arena_init(&arena, NULL, NULL, 0, 1 << 20);
  idem_buf_init(&got, NULL, TEXT_MAX);
  idem_status status =
      idem__uri_template_match(pattern, uri, strlen(uri), &arena, &variables, &count);
  if (status == IDEM_OK) {
    describe(variables, count, &got);
    assert_int_equal(idem__uri_template_match(pattern, uri, strlen(uri), NULL, NULL, NULL),
                     IDEM_OK);
  } else {
    assert_int_equal(status, IDEM_E_NOTFOUND);
    idem_buf_puts(&got, "no");
  }
  idem_buf_put(&got, "", 1);
  if (strcmp(got.data, wanted) != 0) fail_msg("%s on %s: %s, not %s", text, uri, got.data, wanted);
  idem_buf_deinit(&got);
  idem__arena_deinit(&arena);
  idem__uri_template_free(pattern, NULL);
}

static void every_form_of_the_rfc_is_read(void **state) {
  (void)state;
  PARSES("");
  PARSES("plain:text");
  PARSES("{var}{+var}{#var}{.var}{/var}{;var}{?var}{&var}");
  PARSES("{a,b,c}{+a,b*}{/a:1,a}{?x,y,empty}{;list*}{keys*}");
  PARSES("{a.b_c.%41}{v:1}{v:9999}");
  PARSES("caf\xc3\xa9/%7Bx%7D/{x}");
}

static void what_is_no_template_is_refused(void **state) {
  (void)state;
  REFUSED("{");
  REFUSED("}");
  REFUSED("{}");
  REFUSED("{a");
  REFUSED("a}b");
  REFUSED("{a}}");
  REFUSED("{{a}}");
  REFUSED("{a,}");
  REFUSED("{,a}");
  REFUSED("{?}");
  REFUSED("{a b}");
  REFUSED("{a-b}");
  REFUSED("{.a.}");
  REFUSED("{a..b}");
  REFUSED("{..a}");
  REFUSED("{a:}");
  REFUSED("{a:0}");
  REFUSED("{a:01}");
  REFUSED("{a:10000}");
  REFUSED("{a:-1}");
  REFUSED("{a*:1}");
  REFUSED("{a:1*}");
  REFUSED("{a**}");
  REFUSED("{=a}");
  REFUSED("{!a}");
  REFUSED("{@a}");
  REFUSED("{|a}");
  REFUSED("{a%4}");
  REFUSED("{a%zz}");
  REFUSED("x%");
  REFUSED("x%4");
  REFUSED("x%gg");
  REFUSED("a b");
  REFUSED("a<b");
  REFUSED("a\nb");
}

static void a_simple_variable_is_one_segment(void **state) {
  (void)state;
  expect("test://template/{id}/data", "test://template/123/data", "id=123");
  expect("test://template/{id}/data", "test://template/a%20b/data", "id=a b");
  expect("test://template/{id}/data", "test://template/a%2Fb/data", "id=a/b");
  expect("test://template/{id}/data", "test://template/a/b/data", "no");
  expect("test://template/{id}/data", "test://template//data", "no");
  expect("test://template/{id}/data", "test://template/1/data/", "no");
  expect("test://template/{id}/data", "test://template/1?x/data", "no");
  expect("test://template/{id}/data", "test://template/1", "no");
  expect("test://template/{id}/data", "best://template/1/data", "no");
  expect("memo://{id}", "memo://", "no");
  expect("memo://{id}", "memo://-._~", "id=-._~");
  expect("memo://{id}", "memo://a,b", "id=a,b");
}

static void reserved_expansion_crosses_segments(void **state) {
  (void)state;
  expect("file://{+path}", "file:///home/x?y#z", "path=/home/x?y#z");
  expect("file://{+path}/index", "file:///a/index/index", "path=/a/index");
  expect("file://{+path}", "file://", "no");
  expect("x:{+a,b}", "x:1/2,3/4,5", "a=1/2 b=3/4,5");
  expect("x:y{#part}", "x:y#a/b", "part=a/b");
  expect("x:y{#part}", "x:y", "");
  expect("x:y{#part}", "x:y#", "part=");
}

static void lists_of_variables_are_split_at_the_separator(void **state) {
  (void)state;
  expect("x:{a,b}", "x:1,2", "a=1 b=2");
  expect("x:{a,b}", "x:1", "a=1");
  expect("x:{a,b}", "x:1,2,3", "a=1 b=2,3");
  expect("x:{a,b}", "x:", "no");
  expect("x:y{.a,b}", "x:y.1.2", "a=1 b=2");
  expect("x:y{.a}", "x:y.1.2", "a=1.2");
  expect("x:y{/a,b}", "x:y/1/2", "a=1 b=2");
  expect("x:y{/a,b}", "x:y/1", "a=1");
  expect("x:y{/a,b}", "x:y", "");
  expect("x:y{/a,b}", "x:y//2", "a= b=2");
  expect("x:y{/a,b}", "x:y/1/2/3", "no");
}

static void named_variables_are_found_by_name(void **state) {
  (void)state;
  expect("x:y{?a,b}", "x:y?a=1&b=2", "a=1 b=2");
  expect("x:y{?a,b}", "x:y?b=2", "b=2");
  expect("x:y{?a,b}", "x:y?a=", "a=");
  expect("x:y{?a,b}", "x:y", "");
  expect("x:y{?a,b}", "x:y?", "no");
  expect("x:y{?a,b}", "x:y?b=2&a=1", "no");
  expect("x:y{?a,b}", "x:y?a=1&c=2", "no");
  expect("x:y{?a,b}", "x:y?a", "no");
  expect("x:y{?a}", "x:y?a=%26%3D", "a=&=");
  expect("x:y?k=v{&a}", "x:y?k=v&a=1", "a=1");
  expect("x:y{;a,b}", "x:y;a=1;b", "a=1 b=");
  expect("x:y{;a,ab}", "x:y;ab=1", "ab=1");
  expect("x:y{;a}", "x:y;ab", "no");
  expect("x:y{;a}b", "x:y;ab", "a=");
}

static void exploded_lists_and_maps_are_one_value(void **state) {
  (void)state;
  expect("file://{/path*}", "file:///a/b%20c/d", "path=a/b c/d");
  expect("x:y{.list*}", "x:y.a.b", "list=a.b");
  expect("x:{list*}", "x:a,b=c", "list=a,b=c");
  expect("x:y{?map*}", "x:y?k=1&l=a%26b", "map=k=1&l=a%26b");
  expect("x:y{;map*}", "x:y;k=1;l=2", "map=k=1;l=2");
  expect("x:y{?a,rest*}", "x:y?a=1&b=2&c=3", "a=1 rest=b=2&c=3");
  expect("x:y{/path*}{?q}", "x:y/a/b?q=1", "path=a/b q=1");
}

static void prefixes_count_characters(void **state) {
  (void)state;
  expect("x:{v:3}", "x:abc", "v=abc");
  expect("x:{v:3}", "x:abcd", "no");
  expect("x:{v:2}", "x:%C3%A9%C3%A9", "v=\xc3\xa9\xc3\xa9");
  expect("x:{v:1}", "x:%C3%A9%C3%A9", "no");
  expect("x:{a:2}{b}", "x:abcd", "a=ab b=cd");
  expect("x:{a:1}{b}", "x:a", "no");
}

static void a_variable_written_twice_has_one_value(void **state) {
  (void)state;
  expect("x:{a}/{a}", "x:1/1", "a=1");
  expect("x:{a}/{a}", "x:1/2", "no");
  expect("x:y{/v:1,v}", "x:y/a/abc", "v=abc");
  expect("x:y{/v:1,v}", "x:y/b/abc", "no");
  expect("x:y{/v,v:1}", "x:y/abc/a", "v=abc");
  expect("x:{a}/{a}", "x:1/12", "no");
  expect("x:{v:3}/{v}", "x:a/abc", "no");
  expect("x:{v:3}/{v}", "x:a/a", "v=a");
}

static void spelling_does_not_matter_where_the_meaning_is_the_same(void **state) {
  (void)state;
  expect("x:~{a}", "x:%7E%41", "a=A");
  expect("x:caf\xc3\xa9/{a}", "x:caf%c3%a9/1", "a=1");
  expect("x:caf%C3%A9/{a}", "x:caf\xc3\xa9/1", "a=1");
  expect("x:%2f/{a}", "x:%2F/1", "a=1");
  expect("x:%2F{a}", "x:/1", "no");
}

static void values_are_text(void **state) {
  (void)state;
  expect("x:{a}", "x:a%00b", "no");
  expect("x:{a}", "x:%FF", "no");
  expect("x:{a}", "x:%C3%28", "no");
  expect("x:{a}", "x:%ED%A0%80", "no");
  expect("x:{a}", "x:%", "no");
  expect("x:{a}", "x:%4", "no");
  expect("x:{a}", "x:a b", "no");
  expect("x:{a}", "x:a\nb", "no");
  expect("x:{a}", "x:%0A", "a=\n");
}

static void neighbours_share_what_is_there(void **state) {
  (void)state;
  expect("x:{a}{b}", "x:12", "a=1 b=2");
  expect("x:{a}{b}", "x:1", "no");
  expect("x:{a}-{b}", "x:1-2-3", "a=1-2 b=3");
  expect("{+uri}", "any:thing/at/all", "uri=any:thing/at/all");
  expect("", "", "");
  expect("", "x", "no");
  expect("x:y", "x:y", "");
}

static void bounds_are_kept(void **state) {
  (void)state;
  static char text[TEXT_MAX];
  memset(text, 'a', IDEM__URI_TEMPLATE_MAX);
  PARSES(text);
  text[IDEM__URI_TEMPLATE_MAX] = 'a';
  assert_int_equal(parse_status(text), IDEM_E_LIMIT);
  memset(text, 0, sizeof text);
  for (size_t i = 0; i < IDEM__URI_VARIABLES_MAX; i++) memcpy(text + 4 * i, "{a}/", 4);
  PARSES(text);
  memcpy(text + 4 * (size_t)IDEM__URI_VARIABLES_MAX, "{a}", 3);
  assert_int_equal(parse_status(text), IDEM_E_LIMIT);
  memset(text, 'a', sizeof text - 1);
  memcpy(text, "x:", 2);
  text[IDEM__URI_MATCH_MAX + 1] = '\0';
  expect("x:{b}", text, "no");
}

/* A matcher that tries one way after the other would not end within our lives. */
static void hostile_pairs_end_quickly(void **state) {
  (void)state;
  static char text[TEXT_MAX], uri[IDEM__URI_MATCH_MAX + 1];
  memset(uri, 'a', IDEM__URI_MATCH_MAX - 1);
  uri[IDEM__URI_MATCH_MAX - 1] = '!';
  memset(text, 0, sizeof text);
  for (size_t i = 0; i < IDEM__URI_VARIABLES_MAX; i++) memcpy(text + 3 * i, "{a}", 3);
  expect(text, uri, "no");
  for (size_t i = 0; i < IDEM__URI_VARIABLES_MAX; i++) memcpy(text + 4 * i, "{+b}", 4);
  text[4 * (size_t)IDEM__URI_VARIABLES_MAX] = '?';
  expect(text, uri, "no");
  memset(text, 'a', 1024);
  memcpy(text, "{+a}", 4);
  text[1024] = 'b';
  text[1025] = '\0';
  expect(text, uri, "no");
}

static void match_in(fault_alloc *memory, void *user) {
  const char *uri = user;
  idem__arena arena;
  idem__uri_template *pattern;
  idem__uri_variable *variables;
  size_t count;
  idem_status status = idem__uri_template_parse(&memory->alloc, "x:{a}{b}", &pattern);
  if (status == IDEM_OK) {
    idem__arena_init(&arena, &memory->alloc, NULL, 0, 1 << 20);
    status = idem__uri_template_match(pattern, uri, strlen(uri), &arena, &variables, &count);
    idem__arena_deinit(&arena);
    idem__uri_template_free(pattern, &memory->alloc);
  }
  assert_int_equal(status, memory->failures ? IDEM_E_NOMEM : IDEM_OK);
}

static void a_failed_allocation_is_told_and_leaks_nothing(void **state) {
  (void)state;
  char uri[1024];
  memset(uri, 'a', sizeof uri - 1);
  memcpy(uri, "x:", 2);
  uri[sizeof uri - 1] = '\0';
  assert_true(fault_alloc_sweep(match_in, uri, 100) >= 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_form_of_the_rfc_is_read),
      cmocka_unit_test(what_is_no_template_is_refused),
      cmocka_unit_test(a_simple_variable_is_one_segment),
      cmocka_unit_test(reserved_expansion_crosses_segments),
      cmocka_unit_test(lists_of_variables_are_split_at_the_separator),
      cmocka_unit_test(named_variables_are_found_by_name),
      cmocka_unit_test(exploded_lists_and_maps_are_one_value),
      cmocka_unit_test(prefixes_count_characters),
      cmocka_unit_test(a_variable_written_twice_has_one_value),
      cmocka_unit_test(spelling_does_not_matter_where_the_meaning_is_the_same),
      cmocka_unit_test(values_are_text),
      cmocka_unit_test(neighbours_share_what_is_there),
      cmocka_unit_test(bounds_are_kept),
      cmocka_unit_test(hostile_pairs_end_quickly),
      cmocka_unit_test(a_failed_allocation_is_told_and_leaks_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
