/* fuzz_schema_compile.c - any bytes as a schema: refused with a reason, or a program that judges.
 * Bounds are small, so that what takes long is a bug. A verdict must not depend on whether errors
 * are collected. */
#include <idem/schema.h>
#include <stdlib.h>
#include <string.h>

static const char *const instances[] = {"null", "1.5", "\"aab\"", "[1,[2],{\"a\":3}]",
                                        "{\"a\":1,\"b\":{\"a\":[]}}"};

static void judge(const idem_schema *schema, idem_schema_ctx *ctx, const char *text) {
  idem_schema_check first = {.max_steps = 20000, .max_regex_steps = 20000};
  idem_schema_check all = first;
  idem_schema_result one, many;
  all.all_errors = all.show_values = true;
  idem_status status = idem_schema_validate_text(schema, ctx, text, strlen(text), &first, &one);
  if (status == IDEM_OK && !one.valid && one.error_count != 1) abort();
  bool valid = one.valid;
  idem_status again = idem_schema_validate_text(schema, ctx, text, strlen(text), &all, &many);
  if (status == IDEM_OK && again == IDEM_OK && many.valid != valid) abort();
  if (again == IDEM_OK && many.valid != (many.error_count == 0)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  idem_schema_opts opts = {.draft = data[0] & 1 ? IDEM_SCHEMA_DRAFT_07 : IDEM_SCHEMA_DRAFT_2020_12,
                           .assert_formats = (data[0] & 2) != 0,
                           .max_subschemas = 500,
                           .max_depth = 40,
                           .max_pattern_bytes = 200};
  idem_schema *schema;
  idem_schema_fault fault;
  idem_status status =
      idem_schema_compile(&opts, (const char *)data + 1, size - 1, &schema, &fault);
  if (status != IDEM_OK) {
    if (fault.sentence[0] == 0 || schema) abort();
    return 0;
  }
  idem_schema_ctx *ctx;
  if (idem_schema_ctx_new(NULL, &ctx) != IDEM_OK) return 0;
  for (size_t i = 0; i < sizeof instances / sizeof *instances; i++)
    judge(schema, ctx, instances[i]);
  idem_schema_ctx_free(ctx);
  idem_schema_free(schema);
  return 0;
}
