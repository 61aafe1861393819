/* ctx.c - a thread's scratch memory, and the public ways to validate.
 * Memory grows to what a schema and its instances need and is then reused: the steady state
 * allocates nothing. */
#include "validate.h"

#include <stdio.h>

#define DEFAULT_ERRORS 64
#define DEFAULT_DEPTH 2048
#define HIGHEST_DEPTH 16384
#define DEFAULT_REFERENCES 256
#define BASE_STEPS 1000000
#define STEPS_PER_VALUE 16
#define MOST_STEPS 16000000
/* What most instances need less than: remembering would cost them more than it saves. */
#define STEPS_UNTIL_MEMO 8192
#define DEFAULT_REGEX_STEPS 2000000
#define DEFAULT_BYTES ((size_t)64 << 20)
#define TEXT_MAX 4096
/* Instances up to this size are parsed in memory the context keeps. */
#define POOLED_BYTES ((size_t)64 << 10)

idem_status idem_schema_ctx_new(const idem_alloc *alloc, idem_schema_ctx **out) {
  idem_alloc own = idem__alloc_or_default(alloc);
  idem_schema_ctx *ctx = idem__calloc(&own, sizeof *ctx);
  *out = ctx;
  if (!ctx) return IDEM_E_NOMEM;
  ctx->alloc = own;
  idem__region_init(&ctx->scratch, &ctx->alloc, 4096);
  idem__region_init(&ctx->error_memory, &ctx->alloc, 4096);
  idem_buf_init(&ctx->text, &ctx->alloc, TEXT_MAX);
  idem__matcher_init(&ctx->matcher, &ctx->alloc);
  return IDEM_OK;
}

void idem_schema_ctx_free(idem_schema_ctx *ctx) {
  if (!ctx) return;
  idem__matcher_deinit(&ctx->matcher);
  idem__memo_deinit(&ctx->verdicts, &ctx->alloc);
  idem_buf_deinit(&ctx->text);
  idem__region_deinit(&ctx->error_memory);
  idem__region_deinit(&ctx->scratch);
  idem__free(&ctx->alloc, ctx->errors);
  idem__free(&ctx->alloc, ctx->pool);
  idem_alloc own = ctx->alloc;
  idem__free(&own, ctx);
}

static void run_init(run *r, const idem_schema *schema, idem_schema_ctx *ctx,
                     const idem_schema_check *check, yyjson_val *value) {
  uint64_t values = (uint64_t)(idem__next(value) - value);
  *r = (run){.schema = schema, .ctx = ctx, .check = check, .root = value};
  r->steps = BASE_STEPS + values * STEPS_PER_VALUE;
  if (r->steps > MOST_STEPS) r->steps = MOST_STEPS;
  if (check->max_steps) r->steps = check->max_steps;
  /* With $dynamicRef a verdict is not the subschema's and the value's alone. */
  bool can = !schema->dynamic && values <= UINT32_MAX && r->steps > STEPS_UNTIL_MEMO;
  r->memo_below = can ? r->steps - STEPS_UNTIL_MEMO : 0;
  ctx->verdicts.shift = 0;
  r->depth = check->max_depth ? check->max_depth : DEFAULT_DEPTH;
  if (r->depth > HIGHEST_DEPTH) r->depth = HIGHEST_DEPTH;
  r->max_references = check->max_references ? check->max_references : DEFAULT_REFERENCES;
  r->references = r->max_references;
  r->max_errors = check->max_errors ? check->max_errors : DEFAULT_ERRORS;
  r->collect = check->all_errors && !check->verdict_only;
  r->quiet = check->verdict_only;
  ctx->matcher.steps_left = check->max_regex_steps ? check->max_regex_steps : DEFAULT_REGEX_STEPS;
}

static void forget_last(idem_schema_ctx *ctx) {
  idem__region_release(&ctx->scratch, (region_mark){0});
  idem__region_release(&ctx->error_memory, (region_mark){0});
}

static idem_status validate_root(const idem_schema *schema, idem_schema_ctx *ctx, yyjson_val *value,
                                 const idem_schema_check *check, idem_schema_result *result) {
  run r;
  run_init(&r, schema, ctx, check, value);
  frame root = {.parent = NULL};
  bool valid = idem__evaluate(&r, schema->root, value, &root, NULL);
  *result = (idem_schema_result){.valid = valid && r.status == IDEM_OK,
                                 .truncated = r.truncated,
                                 .error_count = r.error_count,
                                 .errors = ctx->errors,
                                 .limit = r.limit};
  return r.status;
}

static const idem_schema_check default_check;

idem_status idem_schema_validate(const idem_schema *schema, idem_schema_ctx *ctx, yyjson_val *value,
                                 const idem_schema_check *check, idem_schema_result *result) {
  *result = (idem_schema_result){0};
  if (!value) return IDEM_E_INVAL;
  forget_last(ctx);
  return validate_root(schema, ctx, value, check ? check : &default_check, result);
}

/* ------------------------------------------------------------------- text */

static bool pool_ready(idem_schema_ctx *ctx, size_t len) {
  size_t need = yyjson_read_max_memory_usage(len, YYJSON_READ_NUMBER_AS_RAW);
  if (need <= ctx->pool_size) return true;
  if (need < 8192) need = 8192;
  char *grown = idem__malloc(&ctx->alloc, need);
  if (!grown) return false;
  idem__free(&ctx->alloc, ctx->pool);
  ctx->pool = grown;
  ctx->pool_size = need;
  return true;
}

static yyjson_doc *parse(idem_schema_ctx *ctx, const char *text, size_t len,
                         yyjson_read_err *error) {
  yyjson_alc alc = idem__json_alc(&ctx->alloc);
  if (len <= POOLED_BYTES) {
    error->code = YYJSON_READ_ERROR_MEMORY_ALLOCATION;
    if (!pool_ready(ctx, len)) return NULL;
    yyjson_alc_pool_init(&alc, ctx->pool, ctx->pool_size);
  }
  /* Without INSITU yyjson only reads the text. */
  return yyjson_read_opts((char *)(uintptr_t)text, len, YYJSON_READ_NUMBER_AS_RAW, &alc, error);
}

static idem_status not_json(idem_schema_ctx *ctx, const idem_schema_check *check,
                            const yyjson_read_err *error, idem_schema_result *result) {
  const char *root = check->root_name ? check->root_name : "value";
  char sentence[256];
  snprintf(sentence, sizeof sentence, "%.64s: expected JSON text, received %s at byte %zu", root,
           error->msg ? error->msg : "something else", error->pos);
  if (!ctx->errors) {
    ctx->errors = idem__malloc(&ctx->alloc, 8 * sizeof *ctx->errors);
    if (!ctx->errors) return IDEM_E_NOMEM;
    ctx->error_capacity = 8;
  }
  const char *text = idem__region_text(&ctx->error_memory, sentence, strlen(sentence));
  if (!text) return IDEM_E_NOMEM;
  ctx->errors[0] = (idem_schema_error){.instance_path = "",
                                       .schema_path = "#",
                                       .keyword = "",
                                       .expected = "JSON text",
                                       .received = "other text",
                                       .sentence = text,
                                       .log_sentence = text};
  result->errors = ctx->errors;
  result->error_count = 1;
  return IDEM_E_INVAL;
}

idem_status idem_schema_validate_text(const idem_schema *schema, idem_schema_ctx *ctx,
                                      const char *text, size_t len, const idem_schema_check *check,
                                      idem_schema_result *result) {
  if (!check) check = &default_check;
  *result = (idem_schema_result){0};
  if (len > (check->max_bytes ? check->max_bytes : DEFAULT_BYTES)) {
    result->limit = "max_bytes";
    return IDEM_E_LIMIT;
  }
  forget_last(ctx);
  yyjson_read_err error = {0};
  yyjson_doc *doc = parse(ctx, text ? text : "", text ? len : 0, &error);
  if (!doc && error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) return IDEM_E_NOMEM;
  if (!doc) return not_json(ctx, check, &error, result);
  idem_status status = validate_root(schema, ctx, yyjson_doc_get_root(doc), check, result);
  if (len > POOLED_BYTES) yyjson_doc_free(doc);
  return status;
}
