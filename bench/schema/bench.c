/* bench.c - how long a verdict takes: typical tool calls, a 5 KB schema, instances of many sizes.
 * Prints "name nanoseconds" lines for bench/schema/run; each figure is the best of several rounds.
 * Allocations are counted: in the steady state there are none. */
#include "../clock.h"
#include "../counting.h"

#include <idem/schema.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Batches are shorter than a time slice, and many: the best one was not disturbed. */
enum { CALLS = 16, REPEATS = 300 };

static char *read_file(const char *folder, const char *name, size_t *len) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  char *text = malloc(1 << 20);
  if (!file || !text) {
    perror(path);
    exit(1);
  }
  *len = fread(text, 1, 1 << 20, file);
  fclose(file);
  return text;
}

static idem_schema *compile(const char *text, size_t len) {
  idem_schema *schema;
  idem_schema_fault fault;
  if (idem_schema_compile(NULL, text, len, &schema, &fault) == IDEM_OK) return schema;
  fprintf(stderr, "%s\n", fault.sentence);
  exit(1);
}

static void must(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "bench: %s\n", what);
  exit(1);
}

/* ------------------------------------------------------------- tool calls */

typedef struct calls {
  idem_schema *schema;
  idem_schema_ctx *ctx;
  char *text[CALLS];
  size_t len[CALLS];
  yyjson_val *value[CALLS];
} calls;

static void judge_text(calls *c, int i) {
  idem_schema_result result;
  idem_schema_validate_text(c->schema, c->ctx, c->text[i], c->len[i], NULL, &result);
  must(result.valid, "a call was judged invalid");
}

static void judge_value(calls *c, int i) {
  idem_schema_result result;
  idem_schema_validate(c->schema, c->ctx, c->value[i], NULL, &result);
  must(result.valid, "a call was judged invalid");
}

static void measure_calls(calls *c, const char *name, void (*judge)(calls *, int)) {
  enum { ROUNDS = 4800 };
  double best = 1e18;
  size_t before = 0;
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    if (repeat == 1) before = allocations;
    double start = now_ns();
    for (int i = 0; i < ROUNDS; i++) judge(c, i % CALLS);
    double each = (now_ns() - start) / ROUNDS;
    if (each < best) best = each;
  }
  printf("%s %.1f\n%s_allocations %zu\n", name, best, name, allocations - before);
}

static void bench_calls(const char *folder) {
  size_t len, i, max;
  char *text = read_file(folder, "call.schema.json", &len);
  calls c = {.schema = compile(text, len)};
  free(text);
  text = read_file(folder, "calls.json", &len);
  yyjson_doc *doc = yyjson_read(text, len, YYJSON_READ_BIGNUM_AS_RAW);
  yyjson_val *value;
  yyjson_arr_foreach(yyjson_doc_get_root(doc), i, max, value) {
    c.value[i % CALLS] = value;
    c.text[i % CALLS] = yyjson_val_write(value, 0, &c.len[i % CALLS]);
  }
  must(idem_schema_ctx_new(&counting, &c.ctx) == IDEM_OK && max == CALLS, "set-up");
  measure_calls(&c, "idem_text", judge_text);
  measure_calls(&c, "idem_value", judge_value);
  for (i = 0; i < CALLS; i++) free(c.text[i]);
  idem_schema_ctx_free(c.ctx);
  idem_schema_free(c.schema);
  yyjson_doc_free(doc);
  free(text);
}

/* ---------------------------------------------------------------- compile */

static void bench_compile(const char *folder) {
  size_t len;
  char *text = read_file(folder, "large.schema.json", &len);
  double best = 1e18;
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    double start = now_ns();
    for (int i = 0; i < 20; i++) idem_schema_free(compile(text, len));
    double each = (now_ns() - start) / 20;
    if (each < best) best = each;
  }
  printf("compile_bytes %zu\ncompile %.1f\n", len, best);
  free(text);
}

/* ------------------------------------------------------------------ sizes */

/* Instances of about `bytes`, in a shape that could be quadratic: members, items, constants. */
typedef size_t (*write_fn)(char *out, size_t i);

static size_t write_record(char *out, size_t i) {
  return (size_t)sprintf(out, "{\"id\":%zu,\"name\":\"record number %zu\",\"tags\":[\"a\",\"b\"]}",
                         i, i);
}
static size_t write_number(char *out, size_t i) { return (size_t)sprintf(out, "%zu", i * 7919); }
static size_t write_member(char *out, size_t i) {
  return (size_t)sprintf(out, "\"key_%zu\":%zu", i, i);
}

static char *make_instance(size_t bytes, char open, char close, write_fn write, size_t *count) {
  char *text = malloc(bytes + 256), *at = text;
  must(text != NULL, "no memory");
  *at++ = open;
  for (*count = 0; (size_t)(at - text) < bytes - 64 || *count == 0; ++*count) {
    if (*count) *at++ = ',';
    at += write(at, *count);
  }
  *at++ = close;
  *at = 0;
  return text;
}

static void measure_size(const char *name, idem_schema *schema, const char *text, size_t bytes) {
  idem_schema_ctx *ctx;
  idem_schema_result result;
  size_t len = strlen(text);
  yyjson_doc *doc = yyjson_read(text, len, YYJSON_READ_BIGNUM_AS_RAW);
  int rounds = (int)(400000 / bytes) + 1;
  double best = 1e18;
  must(idem_schema_ctx_new(NULL, &ctx) == IDEM_OK && doc, "set-up");
  for (int repeat = 0; repeat < (bytes > 100000 ? 5 : 100); repeat++) {
    double start = now_ns();
    for (int i = 0; i < rounds; i++) {
      must(idem_schema_validate(schema, ctx, yyjson_doc_get_root(doc), NULL, &result) == IDEM_OK &&
               result.valid,
           name);
    }
    double each = (now_ns() - start) / rounds;
    if (each < best) best = each;
  }
  printf("%s_%zu %.3f\n", name, bytes, best / (double)len);
  yyjson_doc_free(doc);
  idem_schema_ctx_free(ctx);
}

static void bench_records(size_t bytes) {
  static const char text[] =
      "{\"items\":{\"type\":\"object\",\"required\":[\"id\",\"name\"],\"additionalProperties\":"
      "false,"
      "\"properties\":{\"id\":{\"type\":\"integer\",\"minimum\":0},\"name\":{\"type\":\"string\","
      "\"minLength\":1},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",\"c\"]}}}}}";
  size_t count;
  char *instance = make_instance(bytes, '[', ']', write_record, &count);
  idem_schema *schema = compile(text, sizeof text - 1);
  measure_size("records", schema, instance, bytes);
  idem_schema_free(schema);
  free(instance);
}

static void bench_unique(size_t bytes) {
  size_t count;
  char *instance = make_instance(bytes, '[', ']', write_number, &count);
  idem_schema *schema = compile("{\"uniqueItems\":true}", 20);
  measure_size("unique", schema, instance, bytes);
  idem_schema_free(schema);
  free(instance);
}

/* A schema that declares and requires every member, or lists every number as a constant. */
static idem_schema *wide_schema(const char *open, const char *close, size_t count,
                                const char *format) {
  char *text = malloc(count * 64 + 256), *at = text;
  must(text != NULL, "no memory");
  at += sprintf(at, "%s", open);
  for (size_t i = 0; i < count; i++) {
    if (i) *at++ = ',';
    at += !strcmp(format, "name")     ? sprintf(at, "\"key_%zu\"", i)
          : !strcmp(format, "member") ? sprintf(at, "\"key_%zu\":true", i)
                                      : sprintf(at, "%zu", i * 7919);
  }
  sprintf(at, "%s", close);
  idem_schema_opts opts = {.max_subschemas = 10000000, .max_bytes = (size_t)1 << 30};
  idem_schema *schema;
  idem_schema_fault fault;
  if (idem_schema_compile(&opts, text, strlen(text), &schema, &fault) != IDEM_OK) {
    fprintf(stderr, "%s\n", fault.sentence);
    exit(1);
  }
  free(text);
  return schema;
}

static void bench_wide(size_t bytes) {
  size_t count;
  char *members = make_instance(bytes, '{', '}', write_member, &count);
  idem_schema *schema =
      wide_schema("{\"properties\":{", "},\"additionalProperties\":false}", count, "member");
  measure_size("properties", schema, members, bytes);
  idem_schema_free(schema);
  schema = wide_schema("{\"required\":[", "]}", count, "name");
  measure_size("required", schema, members, bytes);
  idem_schema_free(schema);
  free(members);
  char *numbers = make_instance(bytes, '[', ']', write_number, &count);
  schema = wide_schema("{\"items\":{\"enum\":[", "]}}", count, "number");
  measure_size("enum", schema, numbers, bytes);
  idem_schema_free(schema);
  free(numbers);
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "bench/schema";
  const char *what = argc > 2 ? argv[2] : "calls";
  if (strcmp(what, "sizes") != 0) {
    bench_calls(folder);
    bench_compile(folder);
    return 0;
  }
  for (size_t bytes = 1000; bytes <= 10000000; bytes *= 10) {
    bench_records(bytes);
    bench_unique(bytes);
    bench_wide(bytes);
  }
  return 0;
}
