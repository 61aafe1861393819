/* test_memory.c - each allocation may fail, and the steady state makes none. */
#include "schema_help.h"
#include "support/fault_alloc.h"

static const char schema_text[] =
    "{\"$id\":\"https://x.test/root\",\"type\":\"object\",\"properties\":{"
    "\"a\":{\"type\":\"integer\",\"minimum\":1,\"multipleOf\":0.5},\"b\":{\"$ref\":\"other#x\"},"
    "\"c\":{\"pattern\":\"^(a|b)+$\",\"format\":\"hostname\"},\"d\":{\"enum\":[1,2,3,4,5,6,7,8,9,"
    "{\"k\":[1,2]},123456789012345678901234567890]},\"e\":{\"uniqueItems\":true},"
    "\"h\":{\"pattern\":\"^(?:[ab]*a[ab]{12}|x)$\"},\"i\":{\"pattern\":\"^(.)\\\\1$\"},"
    "\"j\":{\"pattern\":\"^(?<n>\\\\p{Lu}|\\\\P{L})+$\"},"
    "\"q\":{},\"f\":{\"$dynamicRef\":\"#node\"},\"g\":{\"format\":\"regex\"}},"
    "\"patternProperties\":{\"^x-.*y\":{\"type\":\"string\"}},\"required\":[\"a\",\"q\"],"
    "\"dependentRequired\":{\"a\":[\"q\"]},\"unevaluatedProperties\":false,"
    "\"anyOf\":[{\"properties\":{\"p\":{\"default\":3}}},{\"required\":[\"zz\"]}],"
    "\"$defs\":{\"n\":{\"$dynamicAnchor\":\"node\",\"$anchor\":\"plain\"},"
    "\"m\":{\"$ref\":\"https://json-schema.org/draft/2020-12/meta/content\"}}}";
static const char other_text[] = "{\"$defs\":{\"y\":{\"$anchor\":\"x\",\"type\":\"null\"}}}";
static const char good_text[] =
    "{\"a\":2,\"q\":null,\"b\":null,\"c\":\"abab\",\"d\":{\"k\":[1.0,2]},\"e\":[1,2,3,4,5,6,7,8,9,"
    "10,11,{\"z\":1,\"y\":2}],\"f\":1,\"x-y\":\"s\",\"g\":\"[a-z]\",\"h\":\"x\",\"i\":\"zz\","
    "\"j\":\"A1\xc3\x89\"}";
static const char bad_text[] = "{\"a\":\"x\",\"b\":1,\"c\":\"!\",\"zzz\":[1],\"e\":[1,1]}";

/* Everything a caller does, with any allocation failing; statuses may be NOMEM, never nonsense. */
static void whole_life(fault_alloc *fault, void *user) {
  (void)user;
  idem_schema_registry *registry = NULL;
  idem_schema *schema = NULL;
  idem_schema_ctx *ctx = NULL;
  idem_schema_result result;
  idem_schema_fault why;
  idem_schema_check check = {.all_errors = true, .show_values = true};
  idem_status status = idem_schema_registry_new(&fault->alloc, &registry);
  if (status == IDEM_OK)
    status = idem_schema_registry_add(registry, "https://x.test/other", other_text,
                                      sizeof other_text - 1);
  idem_schema_opts opts = {.registry = registry, .alloc = &fault->alloc, .assert_formats = true};
  if (status == IDEM_OK)
    status = idem_schema_compile(&opts, schema_text, sizeof schema_text - 1, &schema, &why);
  if (status == IDEM_OK) status = idem_schema_ctx_new(&fault->alloc, &ctx);
  if (status == IDEM_OK) {
    status =
        idem_schema_validate_text(schema, ctx, good_text, sizeof good_text - 1, &check, &result);
    if (status == IDEM_OK && fault->failures == 0) assert_true(result.valid);
  }
  if (status == IDEM_OK) {
    status = idem_schema_validate_text(schema, ctx, bad_text, sizeof bad_text - 1, &check, &result);
    if (status == IDEM_OK) assert_false(result.valid);
  }
  if (status == IDEM_OK) {
    status = idem_schema_validate_text(schema, ctx, "{", 1, &check, &result);
    if (status == IDEM_E_INVAL) status = IDEM_OK;
  }
  if (status != IDEM_OK) assert_int_equal(status, IDEM_E_NOMEM);
  if (fault->failures == 0) assert_int_equal(status, IDEM_OK);
  idem_schema_ctx_free(ctx);
  idem_schema_free(schema);
  idem_schema_registry_free(registry);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(whole_life, NULL, 2000) > 50);
  assert_true(fault_alloc_sweep_ever_after(whole_life, NULL, 2000) > 50);
}

static void shaping_survives_failing_allocations(fault_alloc *fault, void *user) {
  (void)user;
  idem_schema *schema = compile("{\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":"
                                "\"integer\"}},\"b\":{\"default\":[1,2]}}}");
  static const char text[] = "{\"a\":[\"1\",\"2\"],\"c\":\"1\"}";
  yyjson_doc *in = yyjson_read(text, sizeof text - 1, 0);
  yyjson_alc alc = {fault->alloc.malloc, fault->alloc.realloc, fault->alloc.free, fault->alloc.ctx};
  yyjson_mut_doc *doc = yyjson_mut_doc_new(&alc);
  if (doc) {
    yyjson_mut_val *out;
    idem_status status = idem_schema_apply(schema, yyjson_doc_get_root(in),
                                           &(idem_schema_shape){true, true, 0}, doc, &out);
    assert_true(status == IDEM_OK ? out != NULL : status == IDEM_E_NOMEM && !out);
  }
  yyjson_mut_doc_free(doc);
  yyjson_doc_free(in);
  idem_schema_free(schema);
}

static void shaping_may_run_out_of_memory(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(shaping_survives_failing_allocations, NULL, 100) >= 2);
}

/* After a few rounds neither verdicts nor errors allocate. */
static void the_steady_state_allocates_nothing(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  idem_schema_registry *registry;
  assert_int_equal(idem_schema_registry_new(NULL, &registry), IDEM_OK);
  idem_schema_registry_add(registry, "https://x.test/other", other_text, sizeof other_text - 1);
  idem_schema_opts opts = {.registry = registry}; /* formats as annotations: regex compiles */
  idem_schema *schema = compile_with(&opts, schema_text);
  idem_schema_ctx *ctx;
  idem_schema_result result;
  idem_schema_check check = {.all_errors = true};
  assert_int_equal(idem_schema_ctx_new(&fault.alloc, &ctx), IDEM_OK);
  size_t calls = 0;
  for (int round = 0; round < 1000; round++) {
    if (round == 2) calls = fault.calls;
    idem_schema_validate_text(schema, ctx, good_text, sizeof good_text - 1, &check, &result);
    assert_true(result.valid);
    idem_schema_validate_text(schema, ctx, bad_text, sizeof bad_text - 1, &check, &result);
    assert_false(result.valid);
    assert_true(result.error_count > 3);
  }
  assert_int_equal(fault.calls, calls);
  idem_schema_ctx_free(ctx);
  fault_alloc_assert_clean(&fault);
  idem_schema_free(schema);
  idem_schema_registry_free(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(shaping_may_run_out_of_memory),
      cmocka_unit_test(the_steady_state_allocates_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
