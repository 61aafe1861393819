/* test_automaton.c - automata say what PCRE2 says, over random patterns and texts. */
#include "pattern_help.h"
#include "support/unit.h"

#include <stdio.h>

/* The same in every run. */
typedef struct dice {
  uint64_t state;
} dice;

static uint32_t roll(dice *d, uint32_t sides) {
  d->state = d->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(d->state >> 33) % sides;
}

typedef struct writing {
  char text[512];
  size_t len;
} writing;

static void put(writing *w, const char *text) {
  size_t len = strlen(text);
  if (w->len + len >= sizeof w->text) return;
  memcpy(w->text + w->len, text, len + 1);
  w->len += len;
}

static const char *const atoms[] = {"a",
                                    "b",
                                    "ab",
                                    "\xc3\xa9",
                                    "\\d",
                                    "\\D",
                                    "\\w",
                                    "\\W",
                                    "\\s",
                                    "\\S",
                                    ".",
                                    "[ab]",
                                    "[^a]",
                                    "[a-z_-]",
                                    "[^\\d\\s]",
                                    "[\\w\\-\xd0\x96]",
                                    "[]",
                                    "[^]",
                                    "\\p{L}",
                                    "\\P{Lu}",
                                    "[^\\p{Lu}0]",
                                    "[\\p{Script=Cyrillic}b]",
                                    "\\u{1f432}",
                                    "\\-",
                                    "[\\u{400}-\\u{500}]",
                                    "\\x41",
                                    "[0-9A-F]",
                                    "_"};
static const char *const places[] = {"^", "$", "\\b", "\\B"};
static const char *const repeats[] = {"*", "+", "?", "{2}", "{0,2}", "{1,}", "{0}", "*?", "{2,3}?"};
static const char *const letters[] = {
    "a",  "b",           "A", "0", "_", " ", "-", "\xc3\xa9", "\xd0\x96", "\xf0\x9f\x90\xb2",
    "\n", "\xe2\x80\xa8"};
#define PICK(d, list) (list)[roll((d), sizeof(list) / sizeof *(list))]

static void write_pattern(dice *d, writing *w, unsigned depth);

static void write_term(dice *d, writing *w, unsigned depth) {
  uint32_t kind = roll(d, 10);
  if (kind == 0) {
    put(w, PICK(d, places));
    return;
  }
  if (kind < 4 && depth > 0) {
    put(w, roll(d, 2) ? "(" : "(?:");
    write_pattern(d, w, depth - 1);
    put(w, ")");
  } else {
    put(w, PICK(d, atoms));
  }
  if (roll(d, 3) == 0) put(w, PICK(d, repeats));
}

static void write_pattern(dice *d, writing *w, unsigned depth) {
  uint32_t terms = roll(d, 4);
  for (uint32_t i = 0; i < terms; i++) write_term(d, w, depth);
  if (roll(d, 4)) return;
  put(w, "|");
  write_term(d, w, depth);
}

static void write_text(dice *d, writing *w) {
  *w = (writing){.len = 0};
  for (uint32_t left = roll(d, 12); left > 0; left--) put(w, PICK(d, letters));
}

/* How much was really compared, so that the test cannot pass by comparing nothing. */
typedef struct tally {
  uint32_t linear, compared, refused;
} tally;

static void compare_pattern(dice *d, tally *sum) {
  writing pattern = {.len = 0}, text;
  write_pattern(d, &pattern, 3);
  pattern_trio trio;
  trio_init(&trio, pattern.text, pattern.len);
  for (int kind = 0; kind < BY_PCRE2; kind++)
    if (trio.status[kind] != trio.status[BY_PCRE2])
      fail_msg("%s: status %d, PCRE2 %d", pattern.text, trio.status[kind], trio.status[BY_PCRE2]);
  if (trio.status[BY_PCRE2] != IDEM_OK) sum->refused++;
  for (int i = 0; i < 20 && trio.status[BY_PCRE2] == IDEM_OK; i++) {
    bool compared;
    write_text(d, &text);
    if (!trio_agrees(&trio, text.text, text.len, &compared))
      fail_msg("%s and \"%s\": no agreement", pattern.text, text.text);
    sum->compared += compared;
    sum->linear += idem__regex_is_linear(trio.by[BY_TABLE]);
  }
  trio_deinit(&trio);
}

static void automata_agree_with_pcre2(void **state) {
  (void)state;
  dice d = {20251125};
  tally sum = {0};
  for (int i = 0; i < 5000; i++) compare_pattern(&d, &sum);
  assert_true(sum.compared > 80000);
  assert_true(sum.linear > 80000);
  assert_true(sum.refused < 500);
}

/* Text that is no UTF-8 matches nothing on either side, and is not read past its end. */
static void broken_text_matches_nothing(void **state) {
  (void)state;
  static const char *const broken[] = {"\xc3",     "\xe2\x80",     "\xf0\x9f\x90",     "\x80",
                                       "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"};
  pattern_trio trio;
  trio_init(&trio, "^(?:.|a)*$", 10);
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    bool compared;
    assert_true(trio_agrees(&trio, broken[i], strlen(broken[i]), &compared));
    assert_true(compared);
  }
  trio_deinit(&trio);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(automata_agree_with_pcre2),
      cmocka_unit_test(broken_text_matches_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
