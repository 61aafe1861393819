/* driver.c - judges many schemas in one process, for the comparison with ajv.
 * Each input line is {"draft":7 or 2020,"schema":...,"data":[...]}; each output line has a 1 or 0
 * per instance, L where a bound was reached, or E and the reason the schema was refused. */
#include <idem/schema.h>
#include <stdio.h>
#include <stdlib.h>

static void judge_line(idem_schema_ctx *ctx, yyjson_val *line) {
  bool old = yyjson_get_uint(yyjson_obj_get(line, "draft")) == 7;
  idem_schema_opts opts = {.draft = old ? IDEM_SCHEMA_DRAFT_07 : IDEM_SCHEMA_DRAFT_2020_12};
  idem_schema *schema;
  idem_schema_fault fault;
  if (idem_schema_compile_value(&opts, yyjson_obj_get(line, "schema"), &schema, &fault) !=
      IDEM_OK) {
    printf("E %s\n", fault.sentence);
    return;
  }
  size_t i, max;
  yyjson_val *value;
  yyjson_arr_foreach(yyjson_obj_get(line, "data"), i, max, value) {
    idem_schema_result first, all;
    idem_schema_check collect = {.all_errors = true};
    idem_status status = idem_schema_validate(schema, ctx, value, NULL, &first);
    bool valid = first.valid;
    /* Collecting all errors takes other paths and must come to the same verdict. */
    if (idem_schema_validate(schema, ctx, value, &collect, &all) != status || all.valid != valid) {
      fprintf(stderr, "collecting errors changed the verdict\n");
      exit(1);
    }
    putchar(status != IDEM_OK ? 'L' : valid ? '1' : '0');
  }
  putchar('\n');
  idem_schema_free(schema);
}

int main(void) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t len;
  idem_schema_ctx *ctx;
  if (idem_schema_ctx_new(NULL, &ctx) != IDEM_OK) return 1;
  while ((len = getline(&line, &capacity, stdin)) > 0) {
    yyjson_doc *doc = yyjson_read(line, (size_t)len, YYJSON_READ_BIGNUM_AS_RAW);
    if (!doc) return 1;
    judge_line(ctx, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
  }
  free(line);
  idem_schema_ctx_free(ctx);
  return 0;
}
