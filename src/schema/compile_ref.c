/* compile_ref.c - what names and references mean.
 * Resources and anchors are registered while their document is read; references are resolved when
 * nothing is left to read, and loading a document they name may bring new ones. */
#include "compile.h"

/* -------------------------------------------------------------- dialects */

static const char *const drafts_2020[] = {"https://json-schema.org/draft/2020-12/schema",
                                          "http://json-schema.org/draft/2020-12/schema"};
static const char *const drafts_7[] = {"http://json-schema.org/draft-07/schema",
                                       "https://json-schema.org/draft-07/schema"};

static bool is_one_of(const char *text, size_t len, const char *const *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strlen(list[i]) == len && memcmp(list[i], text, len) == 0) return true;
  return false;
}

static uint8_t vocabulary_named(yyjson_val *uri) {
  static const struct {
    const char *name;
    uint8_t bit;
  } known[] = {{"core", VOCABULARY_CORE},
               {"applicator", VOCABULARY_APPLICATOR},
               {"unevaluated", VOCABULARY_UNEVALUATED},
               {"validation", VOCABULARY_VALIDATION},
               {"meta-data", VOCABULARY_META},
               {"format-annotation", VOCABULARY_FORMAT},
               {"format-assertion", VOCABULARY_FORMAT | VOCABULARY_FORMAT_ASSERT},
               {"content", VOCABULARY_CONTENT}};
  static const char prefix[] = "https://json-schema.org/draft/2020-12/vocab/";
  size_t len = idem__length(uri), skip = sizeof prefix - 1;
  if (len <= skip || memcmp(uri->uni.str, prefix, skip) != 0) return 0;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strlen(known[i].name) == len - skip &&
        memcmp(known[i].name, uri->uni.str + skip, len - skip) == 0)
      return known[i].bit;
  return 0;
}

static idem_status refuse_dialect(compiler *c, node_id at, const char *uri, size_t len) {
  return idem__compile_fail(c, IDEM_E_INVAL, at, KEYWORD_SCHEMA,
                            "the dialect %.*s is not known: 2020-12 and draft-07 are, and "
                            "registered meta-schemas built on them",
                            (int)(len > 120 ? 120 : len), uri);
}

static idem_status read_vocabularies(compiler *c, yyjson_val *map, node_id at, dialect *out) {
  size_t i, max;
  yyjson_val *key, *needed;
  out->vocabularies = VOCABULARY_CORE;
  idem_each_member(map, i, max, key, needed) {
    uint8_t bits = vocabulary_named(key);
    if (!bits && yyjson_is_true(needed))
      return idem__compile_fail(c, IDEM_E_INVAL, at, KEYWORD_SCHEMA,
                                "the dialect requires the vocabulary %.*s, which is not known",
                                (int)(idem__length(key) > 120 ? 120 : idem__length(key)),
                                key->uni.str);
    out->vocabularies |= bits;
  }
  return IDEM_OK;
}

/* A registered meta-schema speaks the dialect it is written in, less or more vocabularies. */
static idem_status registered_speech(compiler *c, const char *uri, size_t len, node_id at,
                                     unsigned hops, dialect *out) {
  const registered *meta = hops ? idem__registry_find(c->registry, uri, len) : NULL;
  yyjson_val *root = meta ? yyjson_doc_get_root(meta->doc) : NULL;
  yyjson_val *next = yyjson_obj_get(root, "$schema");
  if (!yyjson_is_str(next)) return refuse_dialect(c, at, uri, len);
  size_t next_len = idem__length(next);
  if (next_len && next->uni.str[next_len - 1] == '#') next_len--;
  idem_status status = IDEM_OK;
  if (is_one_of(next->uni.str, next_len, drafts_2020, 2))
    *out = (dialect){DRAFT_2020, VOCABULARY_ALL};
  else if (is_one_of(next->uni.str, next_len, drafts_7, 2))
    *out = (dialect){DRAFT_7, VOCABULARY_ALL};
  else
    status = registered_speech(c, next->uni.str, next_len, at, hops - 1, out);
  yyjson_val *vocabulary = yyjson_obj_get(root, "$vocabulary");
  if (status == IDEM_OK && out->draft == DRAFT_2020 && yyjson_is_obj(vocabulary))
    status = read_vocabularies(c, vocabulary, at, out);
  return status;
}

idem_status idem__compile_speech(compiler *c, yyjson_val *schema, node_id at, dialect *out) {
  if (!yyjson_is_str(schema))
    return idem__compile_fail(c, IDEM_E_INVAL, at, KEYWORD_SCHEMA, "must be a string");
  const char *uri = schema->uni.str;
  size_t len = idem__length(schema);
  if (len && uri[len - 1] == '#') len--;
  if (is_one_of(uri, len, drafts_2020, 2))
    *out = (dialect){DRAFT_2020, VOCABULARY_ALL};
  else if (is_one_of(uri, len, drafts_7, 2))
    *out = (dialect){DRAFT_7, VOCABULARY_ALL};
  else
    return registered_speech(c, uri, len, at, 8, out);
  return IDEM_OK;
}

/* ------------------------------------------------------ resources, anchors */

idem_status idem__compile_new_scope(compiler *c, const char *uri, size_t len, uint32_t doc,
                                    yyjson_val *root, dialect speech, uint32_t *out) {
  if (c->scope_count == c->scope_capacity) {
    uint32_t capacity = c->scope_capacity ? c->scope_capacity * 2 : 8;
    scope *grown = idem__realloc(&c->schema->alloc, c->scopes, c->scope_capacity * sizeof *grown,
                                 capacity * sizeof *grown);
    if (!grown) return idem__compile_no_memory(c);
    c->scopes = grown;
    c->scope_capacity = capacity;
  }
  *out = c->scope_count++;
  c->scopes[*out] =
      (scope){.uri = uri, .uri_len = len, .document = doc, .root = root, .speech = speech};
  return IDEM_OK;
}

idem_status idem__compile_name_scope(compiler *c, const char *uri, size_t len, uint32_t index,
                                     node_id at) {
  void *value = (void *)(uintptr_t)(index + 1);
  idem_status status = idem_map_put(&c->scope_by_uri, uri, len, value);
  if (status == IDEM_OK) return IDEM_OK;
  if (status == IDEM_E_NOMEM) return idem__compile_no_memory(c);
  if (idem_map_get(&c->scope_by_uri, uri, len) == value) return IDEM_OK;
  return idem__compile_fail(c, IDEM_E_INVAL, at, KEYWORD_ID, "two schemas have this $id");
}

static bool scope_named(const compiler *c, const char *uri, size_t len, uint32_t *index) {
  void *value = idem_map_get(&c->scope_by_uri, uri, len);
  if (!value) return false;
  *index = (uint32_t)(uintptr_t)value - 1;
  return true;
}

static char *anchor_key(compiler *c, uint32_t scope_index, const char *name, size_t len) {
  char *key = idem__region_get(&c->scratch, len + sizeof scope_index);
  if (!key) return NULL;
  memcpy(key, &scope_index, sizeof scope_index);
  if (len) memcpy(key + sizeof scope_index, name, len);
  return key;
}

/* The number of a dynamic anchor's name, the same in every resource. */
static idem_status anchor_number(compiler *c, const char *name, size_t len, uint32_t *out) {
  void *known = idem_map_get(&c->anchor_names, name, len);
  if (!known) {
    known = (void *)(uintptr_t)++c->anchor_name_count;
    if (idem_map_put(&c->anchor_names, name, len, known) != IDEM_OK)
      return idem__compile_no_memory(c);
  }
  *out = (uint32_t)(uintptr_t)known;
  return IDEM_OK;
}

idem_status idem__compile_anchor(compiler *c, uint32_t scope_index, yyjson_val *name, node_id at,
                                 keyword k) {
  if (!yyjson_is_str(name) || idem__length(name) == 0)
    return idem__compile_fail(c, IDEM_E_INVAL, at, k, "must be a non-empty string");
  size_t len = idem__length(name);
  char *key = anchor_key(c, scope_index, name->uni.str, len);
  named_anchor *anchor = idem__region_zeroed(&c->scratch, sizeof *anchor);
  if (!key || !anchor) return idem__compile_no_memory(c);
  *anchor = (named_anchor){.name = key + sizeof scope_index, .len = len, .node = at};
  scope *home = &c->scopes[scope_index];
  if (k == KEYWORD_DYNAMIC_ANCHOR) {
    idem_status status = anchor_number(c, anchor->name, len, &anchor->id);
    if (status != IDEM_OK) return status;
    anchor->next = home->dynamic;
    home->dynamic = anchor;
    home->dynamic_count++;
  }
  idem_status status = idem_map_put(&c->anchors, key, len + sizeof scope_index, anchor);
  if (status == IDEM_E_NOMEM) return idem__compile_no_memory(c);
  if (status == IDEM_E_EXISTS) {
    named_anchor *first = idem_map_get(&c->anchors, key, len + sizeof scope_index);
    if (first->node != at)
      return idem__compile_fail(c, IDEM_E_INVAL, at, k, "two schemas have this anchor");
    if (anchor->id) first->id = anchor->id; /* $anchor and $dynamicAnchor of one schema */
  }
  return IDEM_OK;
}

/* ---------------------------------------------------------- references */

static size_t percent_decode(char *text, size_t len) {
  size_t out = 0;
  for (size_t i = 0; i < len; i++) {
    int high = text[i] == '%' && i + 2 < len ? idem_hex_value(text[i + 1]) : -1;
    int low = high >= 0 ? idem_hex_value(text[i + 2]) : -1;
    if (low >= 0) {
      text[out++] = (char)(high * 16 + low);
      i += 2;
    } else {
      text[out++] = text[i];
    }
  }
  return out;
}

/* One token of a JSON Pointer, unescaped in place. */
static size_t pointer_unescape(char *token, size_t len) {
  size_t out = 0;
  for (size_t i = 0; i < len; i++) {
    char c = token[i];
    if (c == '~' && i + 1 < len && (token[i + 1] == '0' || token[i + 1] == '1'))
      c = token[++i] == '0' ? '~' : '/';
    token[out++] = c;
  }
  return out;
}

static yyjson_val *step_into(yyjson_val *value, const char *token, size_t len) {
  if (yyjson_is_obj(value)) return yyjson_obj_getn(value, token, len);
  if (!yyjson_is_arr(value) || len == 0 || len > 9) return NULL;
  size_t index = 0;
  for (size_t i = 0; i < len; i++) {
    if (token[i] < '0' || token[i] > '9') return NULL;
    index = index * 10 + (size_t)(token[i] - '0');
  }
  return yyjson_arr_get(value, index);
}

/* Follows a pointer; the last schema on the way decides which resource the target belongs to. */
static yyjson_val *follow_pointer(compiler *c, uint32_t *scope_index, char *pointer, size_t len) {
  uint32_t doc = c->scopes[*scope_index].document;
  yyjson_val *value = c->scopes[*scope_index].root;
  size_t at = 0;
  while (value && at < len) {
    size_t start = ++at;
    while (at < len && pointer[at] != '/') at++;
    size_t token = pointer_unescape(pointer + start, at - start);
    value = step_into(value, pointer + start, token);
    uint32_t known = value ? c->documents[doc].node_of[value - c->documents[doc].root] : 0;
    if (known) *scope_index = c->schema->nodes[known - 1].resource;
  }
  return value;
}

/* A target outside the keywords that hold schemas is compiled now, as if it were one. */
static idem_status compile_target(compiler *c, yyjson_val *value, uint32_t scope_index,
                                  const char *full, size_t full_len, node_id *out) {
  const char *name = idem__region_text(&c->schema->memory, full, full_len);
  if (!name) return idem__compile_no_memory(c);
  where at = {.document = c->scopes[scope_index].document, .scope = scope_index, .depth = 1};
  at.place = (node_place){.parent = NODE_NONE,
                          .named = true,
                          .index = UINT32_MAX,
                          .name = name,
                          .name_len = (uint32_t)full_len};
  return idem__compile_node(c, value, &at, out);
}

static idem_status unresolved(compiler *c, const pending_ref *ref, const char *why) {
  return idem__compile_fail(c, IDEM_E_INVAL, ref->from, (keyword)ref->target->keyword,
                            "%.*s leads to nothing: %s", (int)(ref->len > 120 ? 120 : ref->len),
                            ref->text, why);
}

static idem_status find_scope(compiler *c, const pending_ref *ref, const char *uri, size_t len,
                              uint32_t *index) {
  scope *from = &c->scopes[ref->scope];
  if (len == from->uri_len && (len == 0 || memcmp(uri, from->uri, len) == 0)) {
    *index = ref->scope;
    return IDEM_OK;
  }
  if (scope_named(c, uri, len, index)) return IDEM_OK;
  idem_status status = idem__compile_load(c, uri, len, index);
  if (status == IDEM_E_NOTFOUND)
    return unresolved(c, ref, "no schema with that URI was registered (nothing is fetched)");
  return status;
}

static idem_status find_in_scope(compiler *c, const pending_ref *ref, uint32_t scope_index,
                                 char *fragment, size_t len, const char *full, size_t full_len,
                                 named_anchor **anchor, node_id *out) {
  *anchor = NULL;
  if (len > 0 && fragment[0] != '/') {
    char *key = anchor_key(c, scope_index, fragment, len);
    if (!key) return idem__compile_no_memory(c);
    *anchor = idem_map_get(&c->anchors, key, len + sizeof scope_index);
    if (!*anchor) return unresolved(c, ref, "there is no such anchor");
    *out = (*anchor)->node;
    return IDEM_OK;
  }
  yyjson_val *value = follow_pointer(c, &scope_index, fragment, len);
  if (!value) return unresolved(c, ref, "there is nothing at that pointer");
  return compile_target(c, value, scope_index, full, full_len, out);
}

static idem_status resolve(compiler *c, const pending_ref *ref) {
  size_t len;
  const scope *from = &c->scopes[ref->scope];
  char *full = idem__uri_resolve(&c->scratch, from->uri, from->uri_len, ref->text, ref->len, &len);
  if (!full) return idem__compile_no_memory(c);
  char *hash = len ? memchr(full, '#', len) : NULL;
  size_t uri_len = hash ? (size_t)(hash - full) : len;
  uint32_t index = 0;
  idem_status status = find_scope(c, ref, full, uri_len, &index);
  if (status != IDEM_OK) return status;
  size_t fragment_len = hash ? len - uri_len - 1 : 0;
  char *fragment = idem__region_text(&c->scratch, hash ? hash + 1 : "", fragment_len);
  if (!fragment) return idem__compile_no_memory(c);
  fragment_len = percent_decode(fragment, fragment_len);
  named_anchor *anchor = NULL;
  node_id target = NODE_NONE;
  status = find_in_scope(c, ref, index, fragment, fragment_len, full, len, &anchor, &target);
  if (status != IDEM_OK) return status;
  ref->target->node = target;
  if (ref->target->kind == OP_DYNAMIC_REF) {
    ref->target->anchor = anchor ? anchor->id : 0;
    if (ref->target->anchor) c->schema->dynamic = true;
  }
  return IDEM_OK;
}

idem_status idem__compile_resolve_all(compiler *c) {
  while (c->pending) {
    pending_ref *ref = c->pending;
    c->pending = ref->next;
    idem_status status = resolve(c, ref);
    if (status != IDEM_OK) return status;
  }
  return IDEM_OK;
}
