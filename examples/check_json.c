/* check_json.c - judges its arguments by a schema, after turning strings into what it asks for.
 * Try: check_json '{"count":"3"}' */
#include <idem/schema.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char schema_text[] =
    "{\"type\":\"object\",\"required\":[\"count\"],\"additionalProperties\":false,"
    "\"properties\":{\"count\":{\"type\":\"integer\",\"minimum\":1},"
    "\"unit\":{\"enum\":[\"celsius\",\"kelvin\"],\"default\":\"celsius\"}}}";

static void judge(const idem_schema *schema, idem_schema_ctx *ctx, const char *json) {
  idem_schema_check check = {.all_errors = true, .root_name = "arguments"};
  idem_schema_result result;
  if (idem_schema_validate_text(schema, ctx, json, strlen(json), &check, &result) == IDEM_E_LIMIT)
    printf("no verdict: %s was reached\n", result.limit);
  else if (result.valid)
    puts("valid");
  for (size_t i = 0; i < result.error_count; i++) puts(result.errors[i].sentence);
}

/* {"count":"3"} becomes {"count":3,"unit":"celsius"} */
static char *shaped(const idem_schema *schema, const char *json) {
  yyjson_doc *in = yyjson_read(json, strlen(json), YYJSON_READ_BIGNUM_AS_RAW);
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  idem_schema_shape shape = {.coerce = true, .fill_defaults = true};
  yyjson_mut_val *out = NULL;
  idem_schema_apply(schema, yyjson_doc_get_root(in), &shape, doc, &out);
  char *text = out ? yyjson_mut_val_write(out, 0, NULL) : NULL;
  yyjson_mut_doc_free(doc);
  yyjson_doc_free(in);
  return text;
}

int main(int argc, char **argv) {
  idem_schema *schema;
  idem_schema_fault fault;
  if (idem_schema_compile(NULL, schema_text, strlen(schema_text), &schema, &fault) != IDEM_OK) {
    fprintf(stderr, "bad schema: %s\n", fault.sentence);
    return 1;
  }
  idem_schema_ctx *ctx; /* one per thread; the schema is shared */
  if (idem_schema_ctx_new(NULL, &ctx) != IDEM_OK) return 1;
  for (int i = 1; i < argc; i++) {
    judge(schema, ctx, argv[i]);
    char *better = shaped(schema, argv[i]);
    if (better) printf("as the schema asks: %s\n", better);
    free(better);
  }
  idem_schema_ctx_free(ctx);
  idem_schema_free(schema);
  return 0;
}
