/* compile.h - what the files of the compiler share.
 * compile.c owns documents and the order of work, compile_node.c turns one subschema into a node,
 * compile_object.c builds property tables, compile_ref.c finds what references mean. */
#ifndef IDEM_SCHEMA_COMPILE_H
#define IDEM_SCHEMA_COMPILE_H

#include "schema.h"

/* Which keywords mean something, and how. */
typedef struct dialect {
  uint8_t draft;        /* DRAFT_7 or DRAFT_2020 */
  uint8_t vocabularies; /* VOCABULARY_... */
} dialect;

/* A parsed document that is part of the program. */
typedef struct document {
  yyjson_val *root;
  yyjson_doc *owned; /* NULL: borrowed from the caller or the registry */
  const char *uri;
  size_t uri_len;
  size_t count;      /* values in it */
  uint32_t *node_of; /* node + 1 of the value at this offset from the root; 0: none yet */
} document;

/* A schema resource while compiling. */
typedef struct scope {
  const char *uri; /* absolute, without fragment; empty where nothing names it */
  size_t uri_len;
  uint32_t document;
  yyjson_val *root;
  dialect speech;
  struct named_anchor *dynamic; /* its dynamic anchors, linked */
  uint32_t dynamic_count;
} scope;

typedef struct named_anchor {
  struct named_anchor *next;
  const char *name;
  size_t len;
  node_id node;
  uint32_t id; /* dynamic: the number of its name, from 1; plain: 0 */
} named_anchor;

/* A reference whose meaning is found once its document is read. */
typedef struct pending_ref {
  struct pending_ref *next;
  op *target;
  node_id from;
  uint32_t scope;
  const char *text;
  size_t len;
} pending_ref;

/* Where a subschema stands. */
typedef struct where {
  uint32_t document, scope, depth;
  node_place place;
} where;

typedef struct compiler {
  idem_schema *schema;
  const idem_schema_registry *registry;
  idem_schema_fault *fault;
  region scratch; /* gone when compiling ends */
  bool assert_formats;
  size_t max_bytes, bytes;
  uint32_t max_depth, max_subschemas, max_pattern_bytes;
  dialect default_speech;
  document *documents;
  uint32_t document_count, document_capacity;
  scope *scopes;
  uint32_t scope_count, scope_capacity;
  idem_map scope_by_uri; /* values are index + 1 */
  idem_map anchors;      /* keys: four bytes of scope, then the name */
  idem_map anchor_names; /* dynamic names: values are their number */
  uint32_t anchor_name_count;
  pending_ref *pending;
  const regex *label;  /* the hostname pattern, once made */
  regex_effort effort; /* left for patterns */
} compiler;

/* Says why and returns `status`. The path is that of `at`, then the keyword. */
idem_status idem__compile_fail(compiler *c, idem_status status, node_id at, keyword k,
                               const char *format, ...) IDEM_PRINTF(5, 6);
idem_status idem__compile_no_memory(compiler *c);

idem_status idem__compile_node(compiler *c, yyjson_val *value, const where *at, node_id *out);
/* A subschema of `parent` under a keyword, at a name (copied unless NULL) or index. */
idem_status idem__compile_child(compiler *c, yyjson_val *value, const where *parent_at,
                                node_id parent, keyword k, const char *name, size_t name_len,
                                uint32_t index, node_id *out);
/* The object keywords of one schema, given its keyword values. */
idem_status idem__compile_object(compiler *c, yyjson_val *const *k, const where *at, node_id self,
                                 const object_rules **out);
idem_status idem__compile_pattern(compiler *c, yyjson_val *value, node_id self, keyword k,
                                  const regex **out);
idem_status idem__compile_count(compiler *c, yyjson_val *value, node_id self, keyword k,
                                uint64_t *out);

/* The dialect that `$schema` names. */
idem_status idem__compile_speech(compiler *c, yyjson_val *schema, node_id at, dialect *out);
/* Loads a registered or built-in document; NOTFOUND when there is none. */
idem_status idem__compile_load(compiler *c, const char *uri, size_t len, uint32_t *scope_index);
idem_status idem__compile_new_scope(compiler *c, const char *uri, size_t len, uint32_t document,
                                    yyjson_val *root, dialect speech, uint32_t *out);
idem_status idem__compile_name_scope(compiler *c, const char *uri, size_t len, uint32_t index,
                                     node_id at);
idem_status idem__compile_anchor(compiler *c, uint32_t scope_index, yyjson_val *name, node_id at,
                                 keyword k);
idem_status idem__compile_resolve_all(compiler *c);

#endif
