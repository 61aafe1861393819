/* schema_help.h - short words for the schema tests: compile, judge, sentence. */
#ifndef IDEM_TEST_SCHEMA_HELP_H
#define IDEM_TEST_SCHEMA_HELP_H

#include "support/unit.h"

#include <idem/schema.h>
#include <stdio.h>
#include <stdlib.h>

static inline idem_schema *compile_with(const idem_schema_opts *opts, const char *text) {
  idem_schema *schema;
  idem_schema_fault fault;
  idem_status status = idem_schema_compile(opts, text, strlen(text), &schema, &fault);
  if (status != IDEM_OK) fail_msg("%s: %s", text, fault.sentence);
  return schema;
}

static inline idem_schema *compile(const char *text) { return compile_with(NULL, text); }

/* A schema, a context and the result of the last validation. */
typedef struct judge {
  idem_schema *schema;
  idem_schema_ctx *ctx;
  idem_schema_check check;
  idem_schema_result result;
  idem_status status;
} judge;

static inline judge judge_new(idem_schema *schema) {
  judge j = {.schema = schema};
  assert_int_equal(idem_schema_ctx_new(NULL, &j.ctx), IDEM_OK);
  return j;
}

static inline void judge_free(judge *j) {
  idem_schema_ctx_free(j->ctx);
  idem_schema_free(j->schema);
}

static inline bool accepts(judge *j, const char *instance) {
  j->status = idem_schema_validate_text(j->schema, j->ctx, instance, strlen(instance), &j->check,
                                        &j->result);
  return j->status == IDEM_OK && j->result.valid;
}

/* One schema, one instance. */
static inline bool valid(const char *schema, const char *instance) {
  judge j = judge_new(compile(schema));
  bool good = accepts(&j, instance);
  assert_int_equal(j.status, IDEM_OK);
  judge_free(&j);
  return good;
}

/* The fault of a schema that must be refused with `status`. */
static inline idem_schema_fault refused_with(const idem_schema_opts *opts, const char *text,
                                             idem_status expected) {
  idem_schema *schema;
  idem_schema_fault fault;
  idem_status status = idem_schema_compile(opts, text, strlen(text), &schema, &fault);
  if (status != expected) fail_msg("%.200s: status %d, %s", text, status, fault.sentence);
  assert_null(schema);
  return fault;
}

/* `count` copies of `open`, then `middle`, then `count` copies of `close`. */
static inline char *nested(const char *open, const char *middle, const char *close, size_t count) {
  size_t open_len = strlen(open), middle_len = strlen(middle), close_len = strlen(close);
  char *text = malloc(count * (open_len + close_len) + middle_len + 1);
  assert_non_null(text);
  char *at = text;
  for (size_t i = 0; i < count; i++, at += open_len) memcpy(at, open, open_len);
  memcpy(at, middle, middle_len);
  at += middle_len;
  for (size_t i = 0; i < count; i++, at += close_len) memcpy(at, close, close_len);
  *at = 0;
  return text;
}

#endif
