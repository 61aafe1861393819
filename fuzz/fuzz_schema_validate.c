/* fuzz_schema_validate.c - any bytes as an instance, judged by a schema that uses every keyword.
 * Text and parsed value must come to the same verdict where no number needs more than a double,
 * and shaping by the schema must end. */
#include <idem/schema.h>
#include <stdlib.h>
#include <string.h>

static const char schema_text[] =
    "{\"$id\":\"https://x.test/s\",\"type\":[\"object\",\"array\",\"string\",\"number\"],"
    "\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":-5,\"exclusiveMaximum\":1e6,"
    "\"multipleOf\":0.5},\"s\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":9,\"pattern\":"
    "\"^(a|b)*[a-c]\"},\"p\":{\"pattern\":\"^[a-z]{2,4}-\\\\d+$\"},\"e\":{\"enum\":[1,\"x\",null,"
    "[1,{\"k\":2.5}],2,3,4,5,6,7,8,9]},\"c\":{\"const\":{\"a\":[0]}},\"u\":{\"uniqueItems\":true},"
    "\"t\":{\"$ref\":\"#\"},\"d\":{\"$dynamicRef\":\"#node\"},\"f\":{\"anyOf\":["
    "{\"format\":\"date-time\"},{\"format\":\"duration\"},{\"format\":\"email\"},{\"format\":"
    "\"hostname\"},{\"format\":\"ipv6\"},{\"format\":\"uri\"},{\"format\":\"uri-template\"},"
    "{\"format\":\"regex\"},{\"format\":\"relative-json-pointer\"},{\"format\":\"idn-email\"}]}},"
    "\"patternProperties\":{\"^x.*y\":{\"type\":\"boolean\"}},\"propertyNames\":{\"maxLength\":20},"
    "\"dependentRequired\":{\"n\":[\"s\"]},\"dependentSchemas\":{\"e\":{\"required\":[\"c\"]}},"
    "\"prefixItems\":[{\"type\":\"number\"}],\"items\":{\"$ref\":\"#\"},\"contains\":{\"type\":"
    "\"string\"},\"minContains\":0,\"maxContains\":3,\"if\":{\"required\":[\"n\"]},\"then\":"
    "{\"properties\":{\"q\":{\"default\":[1]}}},\"oneOf\":[{\"type\":\"object\"},{\"type\":"
    "[\"array\",\"string\",\"number\"]}],\"not\":{\"const\":\"no\"},"
    "\"unevaluatedProperties\":{\"type\":\"null\"},\"unevaluatedItems\":{\"maxLength\":3},"
    "\"$defs\":{\"n\":{\"$dynamicAnchor\":\"node\",\"maxProperties\":4}}}";

static idem_schema *schema;
static idem_schema_ctx *ctx;

static void set_up(void) {
  idem_schema_opts opts = {.assert_formats = true};
  if (idem_schema_compile(&opts, schema_text, sizeof schema_text - 1, &schema, NULL) != IDEM_OK ||
      idem_schema_ctx_new(NULL, &ctx) != IDEM_OK)
    abort();
}

static void shape(yyjson_val *value) {
  idem_schema_shape both = {.coerce = true, .fill_defaults = true};
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *out;
  if (doc) idem_schema_apply(schema, value, &both, doc, &out);
  yyjson_mut_doc_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!schema) set_up();
  const char *text = (const char *)data;
  idem_schema_check check = {.all_errors = true, .max_steps = 200000, .max_regex_steps = 100000};
  idem_schema_result result;
  idem_status status = idem_schema_validate_text(schema, ctx, text, size, &check, &result);
  bool valid = result.valid;
  for (size_t i = 0; i < result.error_count; i++)
    if (strchr(result.errors[i].sentence, '\n')) abort();
  yyjson_doc *doc = yyjson_read(text, size, YYJSON_READ_NUMBER_AS_RAW);
  if ((doc == NULL) != (status == IDEM_E_INVAL)) abort();
  if (!doc) return 0;
  idem_status again = idem_schema_validate(schema, ctx, yyjson_doc_get_root(doc), &check, &result);
  if (again != status || result.valid != valid) abort();
  shape(yyjson_doc_get_root(doc));
  yyjson_doc_free(doc);
  return 0;
}
