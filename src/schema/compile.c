/* compile.c - from schema text to an immutable program.
 * Reads the root document, then whatever references lead to, and keeps only what validating needs;
 * the documents themselves are gone when compiling ends. */
#include "compile.h"
#include "parsed.h"

#include <stdarg.h>
#include <stdio.h>

#define DEFAULT_BYTES ((size_t)16 << 20)
#define DEFAULT_DEPTH 128
#define HIGHEST_DEPTH 1024 /* the compiler recurses; more could exhaust a thread's stack */
#define DEFAULT_SUBSCHEMAS 20000
#define DEFAULT_PATTERN_BYTES 8192

/* ---------------------------------------------------------------- faults */

static void fault_path(compiler *c, node_id at, keyword k, char *out, size_t size) {
  idem_buf path;
  idem_buf_init(&path, &c->schema->alloc, 4096);
  idem_status status =
      at == NODE_NONE ? idem_buf_puts(&path, "#") : idem__schema_path(c->schema, at, &path);
  if (status == IDEM_OK && k != KEYWORD_NONE) idem_buf_printf(&path, "/%s", idem__keyword_text(k));
  size_t len = path.len < size - 1 ? path.len : size - 1;
  len = path.data ? idem_utf8_cut(path.data, path.len, len) : 0;
  if (len) memcpy(out, path.data, len);
  out[len] = 0;
  idem_buf_deinit(&path);
}

idem_status idem__compile_fail(compiler *c, idem_status status, node_id at, keyword k,
                               const char *format, ...) {
  idem_schema_fault *fault = c->fault;
  char message[256];
  if (!fault) return status;
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  fault_path(c, at, k, fault->schema_path, sizeof fault->schema_path);
  snprintf(fault->keyword, sizeof fault->keyword, "%s",
           k == KEYWORD_NONE ? "" : idem__keyword_text(k));
  snprintf(fault->sentence, sizeof fault->sentence, "%.120s: %s", fault->schema_path, message);
  return status;
}

idem_status idem__compile_no_memory(compiler *c) {
  if (c->fault) snprintf(c->fault->sentence, sizeof c->fault->sentence, "no memory");
  return IDEM_E_NOMEM;
}

/* ------------------------------------------------------------- documents */

static idem_status add_document(compiler *c, yyjson_val *root, yyjson_doc *owned, const char *uri,
                                size_t uri_len, uint32_t *out) {
  if (c->document_count == c->document_capacity) {
    uint32_t capacity = c->document_capacity ? c->document_capacity * 2 : 4;
    document *grown = idem__realloc(&c->schema->alloc, c->documents,
                                    c->document_capacity * sizeof *grown, capacity * sizeof *grown);
    if (!grown) {
      yyjson_doc_free(owned);
      return idem__compile_no_memory(c);
    }
    c->documents = grown;
    c->document_capacity = capacity;
  }
  *out = c->document_count++;
  document *doc = &c->documents[*out];
  *doc = (document){.root = root, .owned = owned, .uri = uri, .uri_len = uri_len};
  doc->count = (size_t)(idem__next(root) - root);
  doc->node_of = idem__region_zeroed(&c->scratch, doc->count * sizeof *doc->node_of);
  return doc->node_of ? IDEM_OK : idem__compile_no_memory(c);
}

/* The scope of a whole document: its dialect, and the URI it was found under. */
static idem_status add_root_scope(compiler *c, uint32_t doc, uint32_t *index) {
  document *d = &c->documents[doc];
  dialect speech = c->default_speech;
  yyjson_val *schema = yyjson_obj_get(d->root, "$schema");
  idem_status status = schema ? idem__compile_speech(c, schema, NODE_NONE, &speech) : IDEM_OK;
  if (status == IDEM_OK && doc == 0) c->default_speech = speech;
  if (status == IDEM_OK)
    status = idem__compile_new_scope(c, d->uri, d->uri_len, doc, d->root, speech, index);
  if (status == IDEM_OK && d->uri_len)
    status = idem__compile_name_scope(c, d->uri, d->uri_len, *index, NODE_NONE);
  return status;
}

static idem_status compile_whole(compiler *c, yyjson_val *root, yyjson_doc *owned, const char *uri,
                                 size_t uri_len, uint32_t *scope_index, node_id *out) {
  uint32_t doc = 0;
  idem_status status = add_document(c, root, owned, uri, uri_len, &doc);
  if (status == IDEM_OK) status = add_root_scope(c, doc, scope_index);
  if (status != IDEM_OK) return status;
  where at = {.document = doc, .scope = *scope_index};
  at.place = (node_place){.parent = NODE_NONE, .index = UINT32_MAX};
  if (doc > 0) {
    at.place.name = uri;
    at.place.name_len = (uint32_t)uri_len;
  }
  return idem__compile_node(c, root, &at, out);
}

static idem_status charge(compiler *c, size_t len) {
  if (len > c->max_bytes - c->bytes)
    return idem__compile_fail(c, IDEM_E_LIMIT, NODE_NONE, KEYWORD_NONE,
                              "the schema is too large (max_bytes)");
  c->bytes += len;
  return IDEM_OK;
}

static idem_status parse(compiler *c, const char *text, size_t len, yyjson_doc **doc) {
  yyjson_alc alc = idem__json_alc(&c->schema->alloc);
  yyjson_read_err error = {0};
  *doc = NULL;
  idem_status status = charge(c, len);
  if (status != IDEM_OK) return status;
  /* Without INSITU yyjson only reads the text. */
  *doc = yyjson_read_opts((char *)(uintptr_t)text, len, YYJSON_READ_NUMBER_AS_RAW, &alc, &error);
  if (*doc) return IDEM_OK;
  if (error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) return idem__compile_no_memory(c);
  return idem__compile_fail(c, IDEM_E_INVAL, NODE_NONE, KEYWORD_NONE, "not JSON: %s at byte %zu",
                            error.msg ? error.msg : "bad text", error.pos);
}

/* The copy of the URI lives as long as the program, whose paths show it. */
idem_status idem__compile_load(compiler *c, const char *uri, size_t len, uint32_t *scope_index) {
  const registered *found = idem__registry_find(c->registry, uri, len);
  yyjson_doc *owned = NULL;
  yyjson_val *root = found ? yyjson_doc_get_root(found->doc) : NULL;
  idem_status status = IDEM_OK;
  if (found && found->bytes > c->max_bytes - c->bytes)
    return idem__compile_fail(c, IDEM_E_LIMIT, NODE_NONE, KEYWORD_NONE,
                              "the schemas together are too large (max_bytes)");
  if (found) {
    c->bytes += found->bytes;
  } else {
    size_t text_len;
    const char *text = idem__metaschema(uri, len, &text_len);
    if (!text) return IDEM_E_NOTFOUND;
    status = parse(c, text, text_len, &owned);
    if (status != IDEM_OK) return status;
    root = yyjson_doc_get_root(owned);
  }
  const char *name = idem__region_text(&c->schema->memory, uri, len);
  if (!name) {
    yyjson_doc_free(owned);
    return idem__compile_no_memory(c);
  }
  node_id ignored;
  return compile_whole(c, root, owned, name, len, scope_index, &ignored);
}

/* -------------------------------------------------------------- finishing */

static idem_status keep_scope(compiler *c, const scope *from, resource *to) {
  *to = (resource){.anchor_count = from->dynamic_count};
  if (!from->dynamic_count) return IDEM_OK;
  dynamic_anchor *list = idem__region_get(&c->schema->memory, from->dynamic_count * sizeof *list);
  if (!list) return idem__compile_no_memory(c);
  uint32_t i = 0;
  for (named_anchor *a = from->dynamic; a; a = a->next)
    list[i++] = (dynamic_anchor){.anchor = a->id, .node = a->node};
  to->anchors = list;
  return IDEM_OK;
}

/* Only dynamic references need the resources after compiling. */
static idem_status keep_scopes(compiler *c) {
  idem_schema *schema = c->schema;
  if (!schema->dynamic) return IDEM_OK;
  schema->resources = idem__region_get(&schema->memory, c->scope_count * sizeof *schema->resources);
  if (!schema->resources) return idem__compile_no_memory(c);
  schema->resource_count = c->scope_count;
  idem_status status = IDEM_OK;
  for (uint32_t i = 0; i < c->scope_count && status == IDEM_OK; i++)
    status = keep_scope(c, &c->scopes[i], &schema->resources[i]);
  return status;
}

static idem_status new_schema(const idem_schema_opts *opts, idem_schema **out) {
  idem_alloc alloc = idem__alloc_or_default(opts->alloc);
  idem_schema *schema = idem__calloc(&alloc, sizeof *schema);
  *out = schema;
  if (!schema) return IDEM_E_NOMEM;
  schema->alloc = alloc;
  idem__region_init(&schema->memory, &schema->alloc, 1024);
  return IDEM_OK;
}

static void compiler_init(compiler *c, idem_schema *schema, const idem_schema_opts *opts,
                          idem_schema_fault *fault) {
  *c = (compiler){.schema = schema, .registry = opts->registry, .fault = fault};
  const idem_alloc *alloc = &schema->alloc;
  idem__region_init(&c->scratch, alloc, 4096);
  idem_map_init(&c->scope_by_uri, alloc, 0);
  idem_map_init(&c->anchors, alloc, 0);
  idem_map_init(&c->anchor_names, alloc, 0);
  c->assert_formats = opts->assert_formats;
  c->max_bytes = opts->max_bytes ? opts->max_bytes : DEFAULT_BYTES;
  c->max_depth = opts->max_depth ? opts->max_depth : DEFAULT_DEPTH;
  if (c->max_depth > HIGHEST_DEPTH) c->max_depth = HIGHEST_DEPTH;
  c->max_subschemas = opts->max_subschemas ? opts->max_subschemas : DEFAULT_SUBSCHEMAS;
  c->max_pattern_bytes = opts->max_pattern_bytes ? opts->max_pattern_bytes : DEFAULT_PATTERN_BYTES;
  c->effort = REGEX_EFFORT;
  uint8_t draft = opts->draft == IDEM_SCHEMA_DRAFT_07 ? DRAFT_7 : DRAFT_2020;
  c->default_speech = (dialect){draft, VOCABULARY_ALL};
}

static void compiler_deinit(compiler *c) {
  for (uint32_t i = 0; i < c->document_count; i++) yyjson_doc_free(c->documents[i].owned);
  idem__free(&c->schema->alloc, c->documents);
  idem__free(&c->schema->alloc, c->scopes);
  idem_map_deinit(&c->scope_by_uri);
  idem_map_deinit(&c->anchors);
  idem_map_deinit(&c->anchor_names);
  idem__region_deinit(&c->scratch);
}

static const char *copy_base(compiler *c, const char *base, size_t *len) {
  *len = base ? strlen(base) : 0;
  if (*len && base[*len - 1] == '#') --*len;
  return idem__region_text(&c->schema->memory, base ? base : "", *len);
}

/* Takes `owned`, the parsed text, or borrows `value`. */
static idem_status compile_root(compiler *c, yyjson_val *value, yyjson_doc *owned,
                                const char *base_uri) {
  size_t len;
  const char *base = copy_base(c, base_uri, &len);
  if (!base) {
    yyjson_doc_free(owned);
    return idem__compile_no_memory(c);
  }
  uint32_t scope_index;
  idem_status status = compile_whole(c, value, owned, base, len, &scope_index, &c->schema->root);
  if (status == IDEM_OK) status = idem__compile_resolve_all(c);
  if (status == IDEM_OK) status = keep_scopes(c);
  return status;
}

/* Hundreds of programs live side by side; each keeps as many nodes as it has. Having more does no harm. */
static void give_back_nodes(idem_schema *schema) {
  size_t before = schema->node_capacity * sizeof *schema->nodes;
  size_t wanted = schema->node_count * sizeof *schema->nodes;
  node *nodes = wanted ? idem__realloc(&schema->alloc, schema->nodes, before, wanted) : NULL;
  if (!nodes) return;
  schema->nodes = nodes;
  schema->node_capacity = schema->node_count;
}

static idem_status compile(const idem_schema_opts *opts, const char *text, size_t len,
                           yyjson_val *value, idem_schema **out, idem_schema_fault *fault) {
  static const idem_schema_opts none = {0};
  if (!opts) opts = &none;
  if (fault) *fault = (idem_schema_fault){.sentence = "no memory"};
  *out = NULL;
  idem_schema *schema;
  idem_status status = new_schema(opts, &schema);
  if (status != IDEM_OK) return status;
  compiler c;
  compiler_init(&c, schema, opts, fault);
  yyjson_doc *owned = NULL;
  status = value ? charge(&c, len) : parse(&c, text, len, &owned);
  if (!value) value = yyjson_doc_get_root(owned);
  if (status == IDEM_OK) status = compile_root(&c, value, owned, opts->base_uri);
  compiler_deinit(&c);
  if (status == IDEM_OK) {
    if (fault) *fault = (idem_schema_fault){.sentence = ""};
    give_back_nodes(schema);
    *out = schema;
  } else {
    idem_schema_free(schema);
  }
  return status;
}

idem_status idem_schema_compile(const idem_schema_opts *opts, const char *text, size_t len,
                                idem_schema **out, idem_schema_fault *fault) {
  return compile(opts, text ? text : "", text ? len : 0, NULL, out, fault);
}

idem_status idem_schema_compile_value(const idem_schema_opts *opts, yyjson_val *value,
                                      idem_schema **out, idem_schema_fault *fault) {
  *out = NULL;
  if (!value) return IDEM_E_INVAL;
  return compile(opts, NULL, 0, value, out, fault);
}

idem_status idem__schema_compile_parsed(const idem_schema_opts *opts, yyjson_val *value, size_t len,
                                        idem_schema **out, idem_schema_fault *fault) {
  return compile(opts, NULL, len, value, out, fault);
}

void idem_schema_free(idem_schema *schema) {
  if (!schema) return;
  for (regex *r = schema->patterns; r;) {
    regex *next = idem__regex_next(r);
    idem__regex_free(r);
    r = next;
  }
  idem__free(&schema->alloc, schema->nodes);
  idem__region_deinit(&schema->memory);
  idem_alloc alloc = schema->alloc;
  idem__free(&alloc, schema);
}
