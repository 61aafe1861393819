/* test_bombs.c - small schemas and arguments that cost much: how each ends, and within which bound.
 * The time is generous, for sanitizers on a busy machine; the steps are exact enough to fail when
 * something is done without being charged. */
#include "schema_help.h"

#include <time.h>

typedef struct text {
  char *bytes;
  size_t len, capacity;
} text;

static void put(text *t, const char *bytes) {
  size_t len = strlen(bytes);
  if (t->len + len + 1 > t->capacity) {
    t->capacity = 2 * (t->capacity + len) + 64;
    t->bytes = realloc(t->bytes, t->capacity);
    assert_non_null(t->bytes);
  }
  memcpy(t->bytes + t->len, bytes, len + 1);
  t->len += len;
}

/* `before`, `count` times `part` with commas between where asked for, `after`. A %d in the part is its
 * number. */
typedef struct recipe {
  const char *before, *part, *after;
  unsigned count;
  bool commas;
} recipe;

static text cook(const recipe *r) {
  text made = {NULL, 0, 0};
  put(&made, r->before);
  for (unsigned i = 0; i < r->count; i++) {
    char part[1024];
    const char *number = strstr(r->part, "%d");
    snprintf(part, sizeof part, "%.*s", (int)(number ? number - r->part : 1000), r->part);
    if (i && r->commas) put(&made, ",");
    put(&made, part);
    if (!number) continue;
    snprintf(part, sizeof part, "%u%s", i, number + 2);
    put(&made, part);
  }
  put(&made, r->after);
  return made;
}

#define DIGITS_50 "12345678901234567890123456789012345678901234567891"

#define TREE(k)                                                                                    \
  "{\"type\":\"object\",\"required\":[\"l\"],\"properties\":{\"l\":{\"$ref\":\"#/$defs/n\"},"      \
  "\"k\":{\"const\":\"" k "\"}}}"
#define LEFT_8 "{\"l\":{\"l\":{\"l\":{\"l\":{\"l\":{\"l\":{\"l\":{\"l\":"
#define LEFT_32 LEFT_8 LEFT_8 LEFT_8 LEFT_8
#define RIGHT_32 "}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}"

typedef struct bomb {
  const char *name;
  recipe schema, instance;
  const char *limit; /* the bound that ends it; NULL: a verdict */
  bool valid;
  uint64_t max_steps; /* what it may cost; 0: the default */
} bomb;

static const bomb bombs[] = {
    {"a pattern with many starts",
     {"{\"pattern\":\"(?:a|b)*?[cd]\"}", "", "", 0, false},
     {"\"", "aaaaaaaaaa", "\"", 8000, false},
     NULL,
     false,
     5000},
    {"nested repeats",
     {"{\"pattern\":\"^(?:(?:a*)*)*$\"}", "", "", 0, false},
     {"\"", "aaaaaaaaaa", "!\"", 8000, false},
     NULL,
     false,
     5000},
    {"a reference",
     {"{\"pattern\":\"(a*)*\\\\1[bc]\"}", "", "", 0, false},
     {"\"", "aaaaaaaaaa", "\"", 8000, false},
     "max_regex_steps",
     false,
     0},
    {"lookahead from every start",
     {"{\"pattern\":\"(?=(?:a|b)*?c)a\"}", "", "", 0, false},
     {"\"", "aaaaaaaaaa", "\"", 8000, false},
     "max_regex_steps",
     false,
     0},
    {"very many states at once",
     {"{\"pattern\":\"[ab]*a[ab]{900}c\"}", "", "", 0, false},
     {"\"", "aaaaaaaaaa", "\"", 8000, false},
     "max_regex_steps",
     false,
     0},
    {"many backtracking patterns for many names",
     {"{\"patternProperties\":{", "\"^(a+)+\\\\1$|%d\":true", "}}", 200, true},
     {"{", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!%d\":1", "}", 200, true},
     "max_regex_steps",
     false,
     0},
    {"many regular patterns for many names",
     {"{\"patternProperties\":{", "\"^(a+)+$|%d\":true", "}}", 200, true},
     {"{", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!%d\":1", "}", 200, true},
     NULL,
     true,
     100000},
    {"divisions of long numbers",
     {"{\"items\":{\"not\":{\"multipleOf\":" DIGITS_50 DIGITS_50 DIGITS_50 DIGITS_50 "}}}", "", "",
      0, false},
     {"[", "1e19000", "]", 1000, true},
     "max_steps",
     false,
     0},
    {"digits read again and again",
     {"{\"anyOf\":[", "{\"type\":[\"integer\",\"null\"],\"maximum\":0}", "]}", 5000, true},
     {"", "1234567890", "", 100000, false},
     "max_steps",
     false,
     0},
    {"members nobody needs",
     {"{\"anyOf\":[", "{\"properties\":{\"x\":true},\"maxProperties\":0}", "]}", 9000, true},
     {"{", "\"m%d\":1", "}", 50000, true},
     "max_steps",
     false,
     0},
    {"items nobody needs",
     {"{\"anyOf\":[", "{\"items\":true,\"contains\":false}", "]}", 6000, true},
     {"[", "1", "]", 50000, true},
     "max_steps",
     false,
     0},
    {"branches that are false",
     {"{\"items\":{\"not\":{\"anyOf\":[", "false", "]}}}", 10000, true},
     {"[", "1", "]", 50000, true},
     "max_steps",
     false,
     0},
    {"items that are all different",
     {"{\"uniqueItems\":true}", "", "", 0, false},
     {"[", "[%d,{\"a\":1}]", "]", 20000, true},
     NULL,
     true,
     400000},
    {"a giant enumeration",
     {"{\"items\":{\"enum\":[", "\"value %d\"", "]}}", 50000, true},
     {"[", "\"value %d\"", "]", 20000, true},
     NULL,
     true,
     200000},
    {"many branches that look at every member, and one for what is left",
     {"{\"allOf\":[", "{\"properties\":{\"p%d\":{\"type\":\"integer\"}}}",
      "],\"unevaluatedProperties\":false}", 200, true},
     {"{", "\"k%d\":1", "}", 20000, true},
     "max_steps",
     false,
     0},
    {"a tree that two branches take alike at each level",
     {"{\"$defs\":{\"n\":{\"oneOf\":[{\"type\":\"null\"}," TREE("x") "," TREE(
          "y") "]}},"
               "\"properties\":{\"t\":{\"$ref\":\"#/$defs/n\"}}}",
      "", "", 0, false},
     {"{\"t\":" LEFT_32 "null" RIGHT_32 "}", "", "", 0, false},
     NULL,
     false,
     12000},
    {"the same, and many values that are not looked at",
     {"{\"$defs\":{\"n\":{\"oneOf\":[{\"type\":\"null\"}," TREE("x") "," TREE(
          "y") "]}},"
               "\"properties\":{\"t\":{\"$ref\":\"#/$defs/n\"}}}",
      "", "", 0, false},
     {"{\"t\":" LEFT_32 "null" RIGHT_32 ",\"f\":[", "0", "]}", 300000, true},
     NULL,
     false,
     12000},
    {"a tree that must be good twice at each level, and is",
     {"{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":[\"object\",\"null\"],\"allOf\":["
      "{\"properties\":{\"l\":{\"$ref\":\"#/$defs/n\"}}},"
      "{\"properties\":{\"l\":{\"$ref\":\"#/$defs/n\"}}}],\"unevaluatedProperties\":false}}}",
      "", "", 0, false},
     {LEFT_32 "null" RIGHT_32, "", "", 0, false},
     NULL,
     true,
     12000},
    {"no bomb: fifty such branches",
     {"{\"allOf\":[", "{\"properties\":{\"p%d\":{\"type\":\"integer\"}}}",
      "],\"unevaluatedProperties\":{\"type\":\"integer\"}}", 50, true},
     {"{", "\"k%d\":1", "}", 20000, true},
     NULL,
     true,
     1100000},
    {"no bomb: four megabytes of small objects, each tried as three kinds",
     {"{\"items\":{\"anyOf\":[{\"required\":[\"c\"]},{\"type\":\"string\"},{\"type\":\"object\","
      "\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":0},\"b\":{\"type\":\"string\","
      "\"maxLength\":9}},\"required\":[\"a\",\"b\"],\"additionalProperties\":false}]}}",
      "", "", 0, false},
     {"[", "{\"a\":%d,\"b\":\"text\"}", "]", 180000, true},
     NULL,
     true,
     0},
};

static double seconds_since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void detonate(const bomb *b) {
  text schema = cook(&b->schema), instance = cook(&b->instance);
  judge j = judge_new(compile(schema.bytes));
  struct timespec start;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
  j.check.max_steps = b->max_steps;
  bool valid = accepts(&j, instance.bytes);
  double seconds = seconds_since(&start);
  const char *limit = j.result.limit ? j.result.limit : "none",
             *wanted = b->limit ? b->limit : "none";
  if (j.status != (b->limit ? IDEM_E_LIMIT : IDEM_OK) || strcmp(limit, wanted) != 0 ||
      valid != b->valid)
    fail_msg("%s: status %d, limit %s, valid %d", b->name, j.status, limit, valid);
  if (seconds > 10) fail_msg("%s: %.1f s", b->name, seconds);
  if (getenv("BOMB_TIMES")) printf("%-45s %8.1f ms  %s\n", b->name, seconds * 1000, limit);
  judge_free(&j);
  free(schema.bytes);
  free(instance.bytes);
}

static void bombs_end_within_their_bounds(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) detonate(&bombs[i]);
}

/* 34 ns each on a machine of today: a tenth of a second on the loop at the worst. */
static void one_validation_may_take_two_million_steps_of_patterns(void **state) {
  (void)state;
  text instance = cook(&(recipe){"\"", "aaaaaaaaaa", "\"", 160, false});
  judge j = judge_new(compile("{\"pattern\":\"(?=(?:a|b)*?c)a\"}"));
  j.check.max_regex_steps = 2000001;
  accepts(&j, instance.bytes);
  assert_int_equal(j.status, IDEM_E_LIMIT);
  j.check.max_regex_steps = 10000000;
  accepts(&j, instance.bytes);
  assert_int_equal(j.status, IDEM_OK);
  j.check.max_regex_steps = 0;
  accepts(&j, instance.bytes);
  assert_int_equal(j.status, IDEM_E_LIMIT);
  assert_string_equal(j.result.limit, "max_regex_steps");
  judge_free(&j);
  free(instance.bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bombs_end_within_their_bounds),
      cmocka_unit_test(one_validation_may_take_two_million_steps_of_patterns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
