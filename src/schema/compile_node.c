/* compile_node.c - turns one subschema into a node.
 * Its keywords are gathered in one pass over the members, those its dialect does not know are
 * dropped, and each group of the rest becomes the rules for one kind of value. */
#include "draft_node.h"

idem_status idem__draft_wrong(draft_node *d, keyword k, const char *what) {
  return idem__compile_fail(d->c, IDEM_E_INVAL, d->self, k, "must be %s", what);
}

/* ---------------------------------------------------------- subschemas */

idem_status idem__draft_child(draft_node *d, keyword k, node_id *out) {
  if (!d->k[k]) return IDEM_OK;
  return idem__compile_child(d->c, d->k[k], &d->at, d->self, k, NULL, 0, UINT32_MAX, out);
}

idem_status idem__draft_list(draft_node *d, keyword k, const node_id **out, uint32_t *count) {
  yyjson_val *list = d->k[k], *item;
  if (!yyjson_is_arr(list) || idem__length(list) == 0)
    return idem__draft_wrong(d, k, "a non-empty array of schemas");
  if (idem__length(list) > d->c->max_subschemas)
    return idem__compile_fail(d->c, IDEM_E_LIMIT, d->self, k,
                              "too many subschemas (max_subschemas)");
  *count = (uint32_t)idem__length(list);
  node_id *nodes = idem__region_get(idem__draft_memory(d), *count * sizeof *nodes);
  if (!nodes) return idem__compile_no_memory(d->c);
  *out = nodes;
  size_t i, max;
  yyjson_arr_foreach(list, i, max, item) {
    idem_status status =
        idem__compile_child(d->c, item, &d->at, d->self, k, NULL, 0, (uint32_t)i, &nodes[i]);
    if (status != IDEM_OK) return status;
  }
  return IDEM_OK;
}

/* Subschemas that only references reach. */
static idem_status read_definitions(draft_node *d, keyword k) {
  yyjson_val *map = d->k[k], *key, *value;
  if (!map) return IDEM_OK;
  if (!yyjson_is_obj(map)) return idem__draft_wrong(d, k, "an object of schemas");
  size_t i, max;
  idem_each_member(map, i, max, key, value) {
    node_id ignored;
    const char *name = idem__region_text(idem__draft_memory(d), key->uni.str, idem__length(key));
    if (!name) return idem__compile_no_memory(d->c);
    idem_status status = idem__compile_child(d->c, value, &d->at, d->self, k, name,
                                             idem__length(key), UINT32_MAX, &ignored);
    if (status != IDEM_OK) return status;
  }
  return IDEM_OK;
}

/* ------------------------------------------------- rules for every kind */

static op *add_op(draft_node *d, op_kind kind, keyword k) {
  op *o = &d->ops[d->made.op_count++];
  *o = (op){.kind = (uint8_t)kind,
            .keyword = (uint8_t)k,
            .node = NODE_NONE,
            .then = NODE_NONE,
            .otherwise = NODE_NONE};
  return o;
}

static idem_status read_constants(draft_node *d, keyword k) {
  yyjson_val *value = d->k[k];
  if (!value) return IDEM_OK;
  if (k == KEYWORD_ENUM && !yyjson_is_arr(value)) return idem__draft_wrong(d, k, "an array");
  value = idem__value_copy(idem__draft_memory(d), value);
  value_set *set = idem__region_zeroed(idem__draft_memory(d), sizeof *set);
  if (!value || !set) return idem__compile_no_memory(d->c);
  size_t count = k == KEYWORD_ENUM ? idem__length(value) : 1;
  yyjson_val **list = idem__region_get(&d->c->scratch, count * sizeof *list);
  if (!list) return idem__compile_no_memory(d->c);
  yyjson_val *item = k == KEYWORD_ENUM ? value + 1 : value;
  for (size_t i = 0; i < count; i++, item = idem__next(item)) list[i] = item;
  value_budget budget = {.depth = d->c->max_depth, .steps = 100000000, .scratch = &d->c->scratch};
  idem_status status =
      idem__value_set_build(idem__draft_memory(d), list, (uint32_t)count, &budget, set);
  if (status == IDEM_E_NOMEM) return idem__compile_no_memory(d->c);
  if (status != IDEM_OK)
    return idem__compile_fail(d->c, status, d->self, k,
                              "the constants nest too deeply (max_depth)");
  add_op(d, OP_ENUM, k)->set = set;
  return IDEM_OK;
}

static idem_status read_reference(draft_node *d, keyword k, op_kind kind) {
  yyjson_val *text = d->k[k];
  if (!text) return IDEM_OK;
  if (!yyjson_is_str(text)) return idem__draft_wrong(d, k, "a string");
  pending_ref *ref = idem__region_get(&d->c->scratch, sizeof *ref);
  if (!ref) return idem__compile_no_memory(d->c);
  *ref = (pending_ref){.next = d->c->pending,
                       .target = add_op(d, kind, k),
                       .from = d->self,
                       .scope = d->at.scope,
                       .text = text->uni.str,
                       .len = idem__length(text)};
  d->c->pending = ref;
  return IDEM_OK;
}

static idem_status read_group(draft_node *d, keyword k, op_kind kind) {
  if (!d->k[k]) return IDEM_OK;
  op *o = add_op(d, kind, k);
  return idem__draft_list(d, k, &o->nodes, &o->count);
}

static idem_status read_condition(draft_node *d) {
  idem_status status = IDEM_OK;
  node_id ignored;
  if (!d->k[KEYWORD_IF]) { /* then and else alone assert nothing, but may hold definitions */
    status = idem__draft_child(d, KEYWORD_THEN, &ignored);
    return status == IDEM_OK ? idem__draft_child(d, KEYWORD_ELSE, &ignored) : status;
  }
  op *o = add_op(d, OP_IF, KEYWORD_IF);
  status = idem__draft_child(d, KEYWORD_IF, &o->node);
  if (status == IDEM_OK) status = idem__draft_child(d, KEYWORD_THEN, &o->then);
  if (status == IDEM_OK) status = idem__draft_child(d, KEYWORD_ELSE, &o->otherwise);
  return status;
}

static size_t count_ops(const draft_node *d) {
  const keyword with_op[] = {KEYWORD_ENUM,   KEYWORD_CONST,  KEYWORD_REF,
                             KEYWORD_ALL_OF, KEYWORD_ANY_OF, KEYWORD_DYNAMIC_REF,
                             KEYWORD_ONE_OF, KEYWORD_NOT,    KEYWORD_IF};
  size_t count = 0;
  for (size_t i = 0; i < sizeof with_op / sizeof *with_op; i++) count += d->k[with_op[i]] != NULL;
  return count;
}

static idem_status read_ops(draft_node *d) {
  size_t count = count_ops(d);
  if (count) {
    d->ops = idem__region_get(idem__draft_memory(d), count * sizeof *d->ops);
    if (!d->ops) return idem__compile_no_memory(d->c);
    d->made.ops = d->ops;
  }
  idem_status status = read_constants(d, KEYWORD_ENUM);
  if (status == IDEM_OK) status = read_constants(d, KEYWORD_CONST);
  if (status == IDEM_OK) status = read_reference(d, KEYWORD_REF, OP_REF);
  if (status == IDEM_OK) status = read_reference(d, KEYWORD_DYNAMIC_REF, OP_DYNAMIC_REF);
  if (status == IDEM_OK) status = read_group(d, KEYWORD_ALL_OF, OP_ALL_OF);
  if (status == IDEM_OK) status = read_group(d, KEYWORD_ANY_OF, OP_ANY_OF);
  if (status == IDEM_OK) status = read_group(d, KEYWORD_ONE_OF, OP_ONE_OF);
  if (status == IDEM_OK && d->k[KEYWORD_NOT])
    status = idem__draft_child(d, KEYWORD_NOT, &add_op(d, OP_NOT, KEYWORD_NOT)->node);
  if (status == IDEM_OK) status = read_condition(d);
  return status;
}

/* ------------------------------------------------------------ identity */

static idem_status enter_scope(draft_node *d, const char *id, size_t len) {
  compiler *c = d->c;
  const scope outer = c->scopes[d->at.scope];
  size_t uri_len;
  char *uri = idem__uri_resolve(&c->schema->memory, outer.uri, outer.uri_len, id, len, &uri_len);
  if (!uri) return idem__compile_no_memory(c);
  dialect speech = outer.speech;
  yyjson_val *value = c->documents[d->at.document].root;
  bool document_root = outer.root == value && d->at.place.parent == NODE_NONE;
  idem_status status = IDEM_OK;
  if (document_root && d->at.depth == 0) { /* the same resource under its own name */
    c->scopes[d->at.scope].uri = uri;
    c->scopes[d->at.scope].uri_len = uri_len;
    return idem__compile_name_scope(c, uri, uri_len, d->at.scope, d->self);
  }
  if (d->k[KEYWORD_SCHEMA])
    status = idem__compile_speech(c, d->k[KEYWORD_SCHEMA], d->self, &speech);
  if (status == IDEM_OK)
    status = idem__compile_new_scope(c, uri, uri_len, d->at.document, NULL, speech, &d->at.scope);
  if (status == IDEM_OK) status = idem__compile_name_scope(c, uri, uri_len, d->at.scope, d->self);
  return status;
}

static idem_status read_id(draft_node *d, yyjson_val *self_value) {
  yyjson_val *id = d->k[KEYWORD_ID];
  if (!id) return IDEM_OK;
  if (!yyjson_is_str(id)) return idem__draft_wrong(d, KEYWORD_ID, "a string");
  bool old = d->c->scopes[d->at.scope].speech.draft == DRAFT_7;
  const char *text = id->uni.str;
  size_t len = idem__length(id);
  const char *hash = len ? memchr(text, '#', len) : NULL;
  size_t base_len = hash ? (size_t)(hash - text) : len;
  bool fragment = hash && base_len + 1 < len;
  if (fragment && !old)
    return idem__draft_wrong(d, KEYWORD_ID, "a URI reference without a fragment");
  idem_status status = IDEM_OK;
  uint32_t outer = d->at.scope;
  if (base_len > 0) status = enter_scope(d, text, base_len);
  if (status == IDEM_OK && d->at.scope != outer) d->c->scopes[d->at.scope].root = self_value;
  if (status == IDEM_OK && fragment) {
    yyjson_val anchor = {.tag = YYJSON_TYPE_STR | (uint64_t)(len - base_len - 1) << YYJSON_TAG_BIT,
                         .uni.str = hash + 1};
    status = idem__compile_anchor(d->c, d->at.scope, &anchor, d->self, KEYWORD_ID);
  }
  return status;
}

static idem_status read_identity(draft_node *d, yyjson_val *value) {
  idem_status status = read_id(d, value);
  if (status == IDEM_OK && d->k[KEYWORD_ANCHOR])
    status = idem__compile_anchor(d->c, d->at.scope, d->k[KEYWORD_ANCHOR], d->self, KEYWORD_ANCHOR);
  if (status == IDEM_OK && d->k[KEYWORD_DYNAMIC_ANCHOR])
    status = idem__compile_anchor(d->c, d->at.scope, d->k[KEYWORD_DYNAMIC_ANCHOR], d->self,
                                  KEYWORD_DYNAMIC_ANCHOR);
  return status;
}

/* ------------------------------------------------------------- the story */

static idem_status read_unevaluated(draft_node *d) {
  d->made.unevaluated_items = d->made.unevaluated_properties = NODE_NONE;
  idem_status status = idem__draft_child(d, KEYWORD_UNEVALUATED_ITEMS, &d->made.unevaluated_items);
  if (status == IDEM_OK)
    status = idem__draft_child(d, KEYWORD_UNEVALUATED_PROPERTIES, &d->made.unevaluated_properties);
  d->made.tracks_items = d->made.unevaluated_items != NODE_NONE;
  d->made.tracks_properties = d->made.unevaluated_properties != NODE_NONE;
  return status;
}

static idem_status read_default(draft_node *d) {
  if (!d->k[KEYWORD_DEFAULT]) return IDEM_OK;
  d->made.default_value = idem__value_copy(idem__draft_memory(d), d->k[KEYWORD_DEFAULT]);
  return d->made.default_value ? IDEM_OK : idem__compile_no_memory(d->c);
}

/* One pass over the members; what the dialect does not know is as if it were not there. */
static void gather_keywords(draft_node *d, yyjson_val *value) {
  const dialect *speech = &d->c->scopes[d->at.scope].speech;
  size_t i, max;
  yyjson_val *key, *member;
  memset(d->k, 0, sizeof d->k);
  idem_each_member(value, i, max, key, member) {
    keyword k = idem__keyword_find(key->uni.str, idem__length(key));
    bool known = (idem__keyword_drafts(k) & speech->draft) &&
                 (idem__keyword_vocabulary(k) & speech->vocabularies);
    if (known) d->k[k] = member;
  }
  if (speech->draft == DRAFT_7 && d->k[KEYWORD_REF]) { /* its siblings are ignored */
    for (int k = KEYWORD_NONE + 1; k < KEYWORD_COUNT; k++)
      if (k != KEYWORD_REF && k != KEYWORD_DEFINITIONS) d->k[k] = NULL;
  }
}

/* Kinds of value that are good as soon as they are seen. */
static uint8_t quick_kinds(const node *n) {
  uint8_t kinds = n->kinds & KIND_ANY;
  if (n->op_count) return 0;
  if (n->numbers) kinds &= (uint8_t)~KIND_NUMBER;
  if (n->strings) kinds &= (uint8_t)~KIND_STRING;
  if (n->arrays || n->tracks_items) kinds &= (uint8_t)~KIND_ARRAY;
  if (n->objects || n->tracks_properties) kinds &= (uint8_t)~KIND_OBJECT;
  return kinds;
}

static idem_status read_object_schema(draft_node *d, yyjson_val *value) {
  node_id ignored;
  gather_keywords(d, value);
  uint32_t outer = d->at.scope;
  idem_status status = read_identity(d, value);
  if (d->at.scope != outer) gather_keywords(d, value); /* it may speak another dialect */
  d->made.resource = d->at.scope;
  if (status == IDEM_OK) status = idem__draft_type(d);
  if (status == IDEM_OK) status = idem__draft_numbers(d);
  if (status == IDEM_OK) status = idem__draft_strings(d);
  if (status == IDEM_OK) status = read_ops(d);
  if (status == IDEM_OK) status = idem__draft_arrays(d);
  if (status == IDEM_OK)
    status = idem__compile_object(d->c, d->k, &d->at, d->self, &d->made.objects);
  if (status == IDEM_OK) status = read_unevaluated(d);
  if (status == IDEM_OK) status = read_default(d);
  if (status == IDEM_OK) status = idem__draft_child(d, KEYWORD_CONTENT_SCHEMA, &ignored);
  if (status == IDEM_OK) status = read_definitions(d, KEYWORD_DEFS);
  if (status == IDEM_OK) status = read_definitions(d, KEYWORD_DEFINITIONS);
  return status;
}

static idem_status new_node(compiler *c, const where *at, node_id *out) {
  idem_schema *schema = c->schema;
  if (schema->node_count >= c->max_subschemas)
    return idem__compile_fail(c, IDEM_E_LIMIT, at->place.parent, (keyword)at->place.keyword,
                              "too many subschemas (max_subschemas)");
  if (schema->node_count == schema->node_capacity) {
    uint32_t capacity = schema->node_capacity ? schema->node_capacity * 2 : 16;
    node *nodes = idem__realloc(&schema->alloc, schema->nodes,
                                schema->node_capacity * sizeof *nodes, capacity * sizeof *nodes);
    if (!nodes) return idem__compile_no_memory(c);
    schema->nodes = nodes;
    schema->node_capacity = capacity;
  }
  *out = schema->node_count++;
  schema->nodes[*out] = (node){.kinds = KIND_ANY,
                               .resource = at->scope,
                               .unevaluated_items = NODE_NONE,
                               .unevaluated_properties = NODE_NONE,
                               .place = at->place};
  return IDEM_OK;
}

idem_status idem__compile_node(compiler *c, yyjson_val *value, const where *at, node_id *out) {
  document *doc = &c->documents[at->document];
  size_t offset = (size_t)(value - doc->root);
  if (doc->node_of[offset]) {
    *out = doc->node_of[offset] - 1;
    return IDEM_OK;
  }
  if (at->depth >= c->max_depth)
    return idem__compile_fail(c, IDEM_E_LIMIT, at->place.parent, (keyword)at->place.keyword,
                              "the schema nests too deeply (max_depth)");
  idem_status status = new_node(c, at, out);
  if (status != IDEM_OK) return status;
  doc->node_of[offset] = *out + 1;
  draft_node d = {.c = c, .at = *at, .self = *out, .made = c->schema->nodes[*out]};
  if (yyjson_is_bool(value))
    d.made.verdict = yyjson_is_true(value) ? NODE_TRUE : NODE_FALSE;
  else if (yyjson_is_obj(value))
    status = read_object_schema(&d, value);
  else
    status = idem__compile_fail(c, IDEM_E_INVAL, *out, KEYWORD_NONE,
                                "a schema must be an object or a boolean");
  if (d.made.verdict == NODE_FALSE) d.made.kinds = 0;
  d.made.only_enum = d.made.op_count == 1 && d.made.ops[0].kind == OP_ENUM;
  d.made.plain_scalars = d.made.op_count == 0 || d.made.only_enum;
  d.made.quick = d.made.verdict == NODE_TRUE    ? KIND_ANY
                 : d.made.verdict == NODE_FALSE ? 0
                                                : quick_kinds(&d.made);
  c->schema->nodes[*out] = d.made;
  return status;
}

idem_status idem__compile_child(compiler *c, yyjson_val *value, const where *parent_at,
                                node_id parent, keyword k, const char *name, size_t name_len,
                                uint32_t index, node_id *out) {
  where at = *parent_at;
  at.depth++;
  at.place = (node_place){.parent = parent,
                          .keyword = (uint8_t)k,
                          .named = name != NULL,
                          .index = index,
                          .name = name,
                          .name_len = (uint32_t)name_len};
  return idem__compile_node(c, value, &at, out);
}
