/* config_defaults.c - arguments that have a value when nobody gives one: `default` in their schema.
 * Such an argument may be left out, and a default that its own schema refuses is a fault. */
#include "config.h"

#include <string.h>

#define DEPTH_MAX 64u /* of what idem_schema_apply fills in */

/* Anywhere in a schema; a property that is called so costs only a copy of the arguments. */
static bool has_default(yyjson_val *schema, unsigned depth) {
  yyjson_val *key, *item;
  size_t i, max;
  if (!yyjson_is_ctn(schema) || depth == DEPTH_MAX) return false;
  if (yyjson_is_arr(schema)) {
    yyjson_arr_foreach(schema, i, max, item) if (has_default(item, depth + 1)) return true;
    return false;
  }
  idem_each_member(schema, i, max, key, item) {
    if (yyjson_equals_str(key, "default") || has_default(item, depth + 1)) return true;
  }
  return false;
}

/* Schemas that refer to others do not stand alone: those are not looked at. */
static void check_default(serve_config *self, const tool_config *tool, yyjson_val *key,
                          yyjson_val *schema) {
  yyjson_val *value = yyjson_obj_get(schema, "default");
  const char *text = value ? config_json(self, schema) : NULL;
  idem_schema *compiled = NULL;
  idem_schema_ctx *ctx = NULL;
  idem_schema_fault fault;
  idem_schema_result result = {.valid = true};
  if (text && idem_schema_compile(NULL, text, strlen(text), &compiled, &fault) == IDEM_OK &&
      idem_schema_ctx_new(NULL, &ctx) == IDEM_OK)
    idem_schema_validate(compiled, ctx, value,
                         &(idem_schema_check){.root_name = "default", .show_values = true},
                         &result);
  if (!result.valid && result.error_count)
    source_fault(&self->source, value, "tool %s: %s: its own schema refuses its %s", tool->name,
                 yyjson_get_str(key), result.errors[0].sentence);
  idem_schema_ctx_free(ctx);
  idem_schema_free(compiled);
}

static bool is_among(yyjson_val *names, yyjson_val *key) {
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(names, i, max, item) if (yyjson_equals(item, key)) return true;
  return false;
}

/* Only a whole schema can ask for what it has a default for. */
static void note_required(serve_config *self, const tool_config *tool, yyjson_val *key,
                          yyjson_val *schema, yyjson_val *required) {
  if (yyjson_obj_get(schema, "default") && is_among(required, key))
    source_note(
        &self->source, key,
        "tool %s: %s is required, so its default is never used: take it out of \"required\"",
        tool->name, yyjson_get_str(key));
}

void config_defaults(serve_config *self, tool_config *tool) {
  yyjson_val *value = yyjson_obj_iter_get_val(tool->key), *key, *schema;
  yyjson_val *input = yyjson_obj_get(value, "input"), *args = yyjson_obj_get(value, "args");
  yyjson_val *required = yyjson_obj_get(input, "required");
  size_t i, max;
  tool->has_defaults = has_default(input ? input : args, 0);
  if (!tool->has_defaults) return;
  if (input) args = yyjson_obj_get(input, "properties");
  idem_each_member(args, i, max, key, schema) {
    check_default(self, tool, key, schema);
    note_required(self, tool, key, schema, required);
  }
  config_input(self, tool);
}

yyjson_doc *config_fill(const tool_config *tool, yyjson_val *arguments, bool coerce) {
  const idem_schema_shape shape = {.coerce = coerce, .fill_defaults = true};
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *filled = NULL;
  yyjson_doc *made = NULL;
  if (doc && idem_schema_apply(tool->input, arguments, &shape, doc, &filled) == IDEM_OK) {
    yyjson_mut_doc_set_root(doc, filled);
    made = yyjson_mut_doc_imut_copy(doc, NULL);
  }
  yyjson_mut_doc_free(doc);
  return made;
}
