/* test_pattern.c - patterns mean what ECMA-262 says, on every matcher, within their budget. */
#include "schema/plain.h"
#include "schema/regex.h"
#include "schema_help.h"

typedef struct bench {
  idem_alloc alloc;
  region memory;
  regex_matcher matcher;
  regex_effort effort;
} bench;

static void bench_init(bench *b) {
  b->alloc = idem__alloc_or_default(NULL);
  idem__region_init(&b->memory, &b->alloc, 4096);
  idem__matcher_init(&b->matcher, &b->alloc);
  b->matcher.steps_left = 10000000;
  b->effort = REGEX_EFFORT;
}

static void bench_deinit(bench *b) {
  idem__matcher_deinit(&b->matcher);
  idem__region_deinit(&b->memory);
}

/* 1: matches, 0: does not, -1: not a pattern. */
static int match(const char *pattern, const char *text) {
  bench b;
  bench_init(&b);
  regex *r;
  char why[128] = "";
  bool matched = false;
  idem_status status = idem__regex_compile(&b.memory, pattern, strlen(pattern), 8192, &b.effort, &r,
                                           why, sizeof why);
  if (status == IDEM_OK)
    assert_int_equal(idem__regex_match(r, &b.matcher, text, strlen(text), &matched), IDEM_OK);
  idem__regex_free(r);
  bench_deinit(&b);
  return status == IDEM_OK ? matched : -1;
}

static void patterns_follow_ecma(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *text;
    int result;
  } cases[] = {{"^\\d+$", "\xe0\xa7\xaa", 0}, /* a Bengali digit */
               {"^\\w$", "\xc3\xa9", 0},
               {"^\\s$", "\xc2\xa0", 1},
               {"^[\\s]$", "\xef\xbb\xbf", 1},
               {"^[^\\S]$", " ", 1},
               {"^\\S$", "\xe2\x80\x83", 0},
               {"^abc$", "abc\n", 0}, /* $ is the end, never before a newline */
               {"^.$", "\xe2\x80\xa8", 0},
               {"^.$", "\xf0\x9f\x90\xb2", 1},
               {"^\\u{1F432}$", "\xf0\x9f\x90\xb2", 1},
               {"^\\uD83D\\uDC32$", "\xf0\x9f\x90\xb2", 1},
               {"^\\u00e9$", "\xc3\xa9", 1},
               {"^\\p{Letter}+$", "\xc3\xa9t\xc3\xa9", 1},
               {"^\\p{Lu}$", "a", 0},
               {"^\\P{L}$", "1", 1},
               {"^\\p{Script=Greek}$", "\xce\xb1", 1},
               {"^\\p{gc=Ll}$", "a", 1},
               {"^\\cC$", "\x03", 1},
               {"^\\t\\v\\f$", "\t\v\f", 1},
               {"^[^]$", "\n", 1},
               {"[]", "a", 0},
               {"^(?<year>\\d{4})-\\k<year>$", "2020-2020", 1},
               {"^(?:a|b)*?$", "abab", 1},
               {"^(a)\\1$", "aa", 1},
               {"^[[:alpha:]]$", "p]", 1},
               {"a{,3}", "a{,3}", 1},
               {"^x{2}y$", "xxy", 1},
               {"^\\-\\/\\@$", "-/@", 1},
               {"(?<=a)b", "ab", 1},
               {"^[\\b]$", "\b", 1},
               {"b", "abc", 1},
               {"", "anything", 1},
               {"\\a", "", -1},
               {"\\Z", "", -1},
               {"(?i)a", "", -1},
               {"(?#c)a", "", -1},
               {"(?P<n>a)", "", -1},
               {"(?>a)", "", -1},
               {"a++", "", -1},
               {"*a", "", -1},
               {"(a", "", -1},
               {"a)", "", -1},
               {"[a", "", -1},
               {"\\", "", -1},
               {"\\x1", "", -1},
               {"\\u12", "", -1},
               {"\\p{Nonsense}", "", -1},
               {"\\01", "", -1},
               {"(*ACCEPT)", "", -1},
               {"\\Qa\\E", "", -1},
               {"[z-a]", "", -1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (match(cases[i].pattern, cases[i].text) != cases[i].result)
      fail_msg("%s on \"%s\" is not %d", cases[i].pattern, cases[i].text, cases[i].result);
}

/* The plain matcher must agree with the others wherever it takes a pattern at all. */
static void plain_matching_agrees_with_the_others(void **state) {
  (void)state;
  static const char *const patterns[] = {"^[a-z]+$",
                                         "^[a-z][a-z0-9_-]*$",
                                         "^\\d{4}-\\d{2}-\\d{2}$",
                                         "^#[0-9a-fA-F]{6}$",
                                         "^https?:",
                                         "^[A-Z]{2,3}$",
                                         "^a*b+c?$",
                                         "^$",
                                         "^[+-]?\\d+$",
                                         "^\\w+@\\w+$",
                                         "^x{0}y$",
                                         "^[a-c]{2,}d"};
  static const char *const texts[] = {
      "",        "a",  "abc",  "abc\n", "2024-01-31", "#ffA0",    "#ffA0b9", "http:", "https://x",
      "httpss:", "AB", "ABCD", "b",     "aabbc",      "bcc",      "+12",     "12",    "-",
      "me@home", "y",  "xy",   "abcd",  "aad",        "\xc3\xa9", "a-b_9"};
  size_t plain_count = 0;
  for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
    bench b;
    bench_init(&b);
    plain_pattern *plain;
    assert_int_equal(idem__plain_compile(&b.memory, patterns[p], strlen(patterns[p]), &plain), 0);
    char grouped[64]; /* a group makes the same pattern one for the others */
    snprintf(grouped, sizeof grouped, "(?:%s)", patterns[p]);
    for (size_t t = 0; plain && t < sizeof texts / sizeof *texts; t++) {
      bool mine = idem__plain_match(plain, texts[t], strlen(texts[t]));
      if (match(grouped, texts[t]) != mine)
        fail_msg("%s on \"%s\": plain says %d", patterns[p], texts[t], mine);
    }
    plain_count += plain != NULL;
    bench_deinit(&b);
  }
  assert_int_equal(plain_count, sizeof patterns / sizeof *patterns);
}

static void patterns_that_need_backtracking_are_not_plain(void **state) {
  (void)state;
  static const char *const patterns[] = {"^[a-z]*a$", "^a?a$",  "^a*b?a$", "a",    "^(ab)+$",
                                         "^a|b$",     "^[^a]$", "^.$",     "^a+?$"};
  for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
    bench b;
    bench_init(&b);
    plain_pattern *plain;
    assert_int_equal(idem__plain_compile(&b.memory, patterns[p], strlen(patterns[p]), &plain), 0);
    if (plain) fail_msg("%s was taken for plain", patterns[p]);
    bench_deinit(&b);
  }
}

/* What a pattern says of a text within some steps. */
static idem_status match_within(const char *pattern, const char *text, size_t len, uint64_t steps,
                                bool *matched, bool *linear) {
  bench b;
  bench_init(&b);
  b.matcher.steps_left = steps;
  regex *r;
  assert_int_equal(
      idem__regex_compile(&b.memory, pattern, strlen(pattern), 8192, &b.effort, &r, NULL, 0), 0);
  *linear = idem__regex_is_linear(r);
  idem_status status = idem__regex_match(r, &b.matcher, text, len, matched);
  if (status == IDEM_E_LIMIT) assert_int_equal(b.matcher.steps_left, 0);
  idem__regex_free(r);
  bench_deinit(&b);
  return status;
}

/* These froze a backtracking matcher: it tries all ways to divide the text, from every start. */
static void catastrophic_patterns_are_linear(void **state) {
  (void)state;
  static const char *const patterns[] = {
      "^(a+)+$",  "^(a|aa)+$", "^(a|a?)+$",  "(a+a+)+[yz]", "(a*)*b",         "(?:a|b)*?[cd]",
      "(a|a)*$b", "a*a*a*a*b", "(.*a){12}b", "(?:a?){40}b", "\\b(\\w+)*\\B!$"};
  enum { LENGTH = 80000 };
  char *text = malloc(LENGTH + 1);
  assert_non_null(text);
  memset(text, 'a', LENGTH);
  text[LENGTH] = '!';
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    bool matched = true, linear = false;
    idem_status status = match_within(patterns[i], text, LENGTH + 1, 100, &matched, &linear);
    if (status != IDEM_OK || matched || !linear)
      fail_msg("%s: status %d, %d, linear %d", patterns[i], status, matched, linear);
  }
  free(text);
}

/* Without a table each character costs a step for each state, and no more. */
static void many_states_are_paid_for(void **state) {
  (void)state;
  enum { LENGTH = 1000 };
  char text[LENGTH];
  memset(text, 'a', sizeof text);
  bool matched, linear;
  const char *pattern = "^[ab]*a[ab]{200}c";
  assert_int_equal(match_within(pattern, text, LENGTH, 500 * LENGTH, &matched, &linear), IDEM_OK);
  assert_true(linear && !matched);
  assert_int_equal(match_within(pattern, text, LENGTH, 10 * LENGTH, &matched, &linear),
                   IDEM_E_LIMIT);
  assert_false(matched);
}

/* What is not regular backtracks, and ends with the budget: all starts are paid from one. */
static void backtracking_ends_with_the_budget(void **state) {
  (void)state;
  static const char *const patterns[] = {"^(a+)+\\1$b",        "(a+)+(?=b)b\\1",   "(a*)*\\1b",
                                         "(?=(a+)+b)a",        "a{30000}\\b(?!a)", "(a+)\\1b",
                                         "(?<!b)(a|aa)+(?!a)b"};
  enum { LENGTH = 80000 };
  char *text = malloc(LENGTH);
  assert_non_null(text);
  memset(text, 'a', LENGTH);
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    bool matched = true, linear = true;
    idem_status status = match_within(patterns[i], text, LENGTH, 1000000, &matched, &linear);
    if (status != IDEM_E_LIMIT || matched || linear)
      fail_msg("%s: status %d, %d, linear %d", patterns[i], status, matched, linear);
  }
  free(text);
}

static void counted_repeats_are_bounded(void **state) {
  (void)state;
  assert_int_equal(match("^(?:a{1000}){1000}$", "a"), 0); /* a million states: left to PCRE2 */
  assert_int_equal(match("^(?:(?:ab){1000}){1000}$", "a"), -1); /* which finds this too large */
  assert_int_equal(match("a{1000}{1000}", "a"), -1);
  assert_int_equal(match("a{70000}", "a"), -1);
  assert_int_equal(match("^.{0,10000}$", "a"), 1); /* PCRE2's: we would need as many states */
  assert_int_equal(match("^.{0,1000}$", "a"), 1);
  assert_int_equal(match("^(?:(?:ab){2}c){2,3}$", "ababcababc"), 1);
  assert_int_equal(match("^(?:(?:ab){2}c){2,3}$", "ababc"), 0);
}

/* Patterns beyond the steps of a compilation still match, by PCRE2; beyond its bytes they end it. */
static void a_schema_has_so_much_effort(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  b.effort.steps = 0;
  regex *r;
  bool matched = false;
  assert_int_equal(idem__regex_compile(&b.memory, "a|b", 3, 8192, &b.effort, &r, NULL, 0), 0);
  assert_false(idem__regex_is_linear(r));
  assert_int_equal(idem__regex_match(r, &b.matcher, "xb", 2, &matched), IDEM_OK);
  assert_true(matched);
  idem__regex_free(r);
  b.effort = REGEX_EFFORT;
  b.effort.bytes = 100;
  assert_int_equal(idem__regex_compile(&b.memory, "a|b", 3, 8192, &b.effort, &r, NULL, 0),
                   IDEM_E_LIMIT);
  assert_null(r);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(patterns_follow_ecma),
      cmocka_unit_test(plain_matching_agrees_with_the_others),
      cmocka_unit_test(patterns_that_need_backtracking_are_not_plain),
      cmocka_unit_test(catastrophic_patterns_are_linear),
      cmocka_unit_test(many_states_are_paid_for),
      cmocka_unit_test(backtracking_ends_with_the_budget),
      cmocka_unit_test(counted_repeats_are_bounded),
      cmocka_unit_test(a_schema_has_so_much_effort),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
