/* schema.h - the compiled form of a schema, shared by the files of src/schema.
 * A program is an array of nodes (one per subschema) whose rules are grouped by the kind of value
 * they judge; everything it points to lives in one region. See docs/internals/schema.md. */
#ifndef IDEM_SCHEMA_PRIVATE_H
#define IDEM_SCHEMA_PRIVATE_H

#include <idem/schema.h>

#include "base/base.h"
#include "hash.h"
#include "keyword.h"
#include "number.h"
#include "regex.h"
#include "region.h"
#include "json/json.h"

typedef uint32_t node_id;
#define NODE_NONE UINT32_MAX

/* What kinds of value a node lets through. */
enum {
  KIND_NULL = 1,
  KIND_BOOLEAN = 2,
  KIND_NUMBER = 4,
  KIND_STRING = 8,
  KIND_ARRAY = 16,
  KIND_OBJECT = 32,
  KIND_INTEGER = 64, /* numbers without a fraction; only in masks */
  KIND_ANY = 63
};

/* The kind bit of a value; raw values are numbers whose text was kept. */
static inline uint8_t idem__kind(const yyjson_val *value) {
  static const uint8_t kinds[8] = {0,           KIND_NUMBER, KIND_NULL,  KIND_BOOLEAN,
                                   KIND_NUMBER, KIND_STRING, KIND_ARRAY, KIND_OBJECT};
  return kinds[value->tag & YYJSON_TYPE_MASK];
}
static inline size_t idem__length(const yyjson_val *value) {
  return (size_t)(value->tag >> YYJSON_TAG_BIT);
}
/* The value after this one and all it holds: immutable documents are laid out in reading order. */
static inline yyjson_val *idem__next(yyjson_val *value) { return unsafe_yyjson_get_next(value); }

typedef struct number_rules {
  bool has_minimum, has_maximum, has_exclusive_minimum, has_exclusive_maximum, has_multiple;
  bool plain;        /* only bounds, all of them integers: low and high say everything */
  int64_t low, high; /* inclusive, for integer instances */
  bool plain_real; /* only bounds, all of them exact as doubles: these say everything of doubles */
  double real_low, real_high;    /* inclusive */
  double real_above, real_below; /* exclusive */
  number minimum, maximum, exclusive_minimum, exclusive_maximum, multiple;
} number_rules;

typedef struct string_rules {
  uint64_t min_length, max_length; /* code points; max UINT64_MAX: none */
  const regex *pattern;
  uint8_t format;     /* enum format; 0: none, or not asserted */
  const regex *label; /* what the hostname formats need for A-labels */
} string_rules;

typedef struct array_rules {
  const node_id *prefix;
  uint32_t prefix_count;
  uint8_t prefix_keyword; /* prefixItems, or items in draft-07 */
  uint8_t rest_keyword;   /* items, or additionalItems in draft-07 */
  bool unique;
  node_id rest; /* items past the prefix */
  node_id contains;
  uint64_t min_contains, max_contains;
  uint64_t min_items, max_items;
} array_rules;

/* A name the object rules know: declared, required, or part of a dependency. */
typedef struct property {
  idem__words words;
  const char *name;
  uint32_t len;
  node_id node; /* NODE_NONE: known for other reasons than `properties` */
} property;

typedef struct pattern_property {
  const regex *pattern;
  node_id node;
} pattern_property;

typedef struct dependent_names {
  uint32_t trigger; /* index of a property */
  uint32_t count;
  const uint32_t *names; /* indexes of properties */
  uint8_t keyword;
} dependent_names;

typedef struct dependent_schema {
  uint32_t trigger;
  node_id node;
} dependent_schema;

typedef struct object_rules {
  const property *properties;
  const uint32_t *slots; /* index + 1 by hash; NULL while the table is small */
  uint32_t property_count;
  uint32_t slot_mask;
  const uint64_t *required; /* a bit per property */
  uint32_t required_count;
  uint32_t words; /* of a bit set over the properties */
  uint32_t pattern_count;
  const pattern_property *patterns;
  node_id additional;
  node_id names;
  uint64_t min_properties, max_properties;
  uint32_t dependent_names_count, dependent_schema_count;
  const dependent_names *dependent_names;
  const dependent_schema *dependent_schemas;
} object_rules;

/* Constants to compare with; beyond a few they are found by hash. */
typedef struct value_set {
  yyjson_val **values;
  const uint64_t *hashes;
  const uint32_t *slots; /* index + 1 by hash; NULL while the set is small */
  uint32_t count, slot_mask;
  uint8_t kinds;
} value_set;

typedef enum op_kind {
  OP_ENUM, /* const too: a set of one */
  OP_REF,
  OP_DYNAMIC_REF,
  OP_ALL_OF,
  OP_ANY_OF,
  OP_ONE_OF,
  OP_NOT,
  OP_IF
} op_kind;

/* A rule for values of every kind. */
typedef struct op {
  uint8_t kind;
  uint8_t keyword;
  uint32_t count; /* allOf, anyOf, oneOf */
  node_id node;   /* $ref, not, if, and where $dynamicRef leads by default */
  node_id then, otherwise;
  uint32_t anchor;      /* $dynamicRef: which name to look for; 0: none, it is a plain $ref */
  const node_id *nodes; /* allOf, anyOf, oneOf */
  const value_set *set; /* enum, const */
} op;

typedef enum node_verdict { NODE_RULES, NODE_TRUE, NODE_FALSE } node_verdict;

/* Where a subschema was written: under `keyword` of `parent`, at a name or an index. */
typedef struct node_place {
  node_id parent; /* NODE_NONE: the root of a document, or a place only a pointer reaches */
  uint8_t keyword;
  uint8_t named;
  uint32_t index;   /* UINT32_MAX: neither name nor index */
  const char *name; /* named: the property; parent NODE_NONE: the document and pointer */
  uint32_t name_len;
} node_place;

typedef struct node {
  uint8_t verdict;
  uint8_t kinds;      /* KIND_ANY where `type` is absent */
  uint8_t quick;      /* kinds that are good as soon as they are seen */
  bool plain_scalars; /* no operation but perhaps one enum: scalars need no recursion */
  bool only_enum;     /* that enum is there */
  bool tracks_properties, tracks_items; /* unevaluated... is here */
  uint32_t resource;
  uint32_t op_count;
  const op *ops;
  const number_rules *numbers;
  const string_rules *strings;
  const array_rules *arrays;
  const object_rules *objects;
  node_id unevaluated_properties, unevaluated_items;
  yyjson_val *default_value;
  node_place place;
} node;

typedef struct dynamic_anchor {
  uint32_t anchor;
  node_id node;
} dynamic_anchor;

/* A schema resource: what `$id` names. Only its dynamic anchors matter after compiling. */
typedef struct resource {
  const dynamic_anchor *anchors;
  uint32_t anchor_count;
} resource;

struct idem_schema {
  idem_alloc alloc;
  region memory;
  node *nodes;
  uint32_t node_count, node_capacity;
  node_id root;
  resource *resources;
  uint32_t resource_count;
  bool dynamic;    /* some $dynamicRef needs the dynamic scope */
  regex *patterns; /* all, linked, to be freed */
};

/* -------------------------------------------------------------- values */

/* A deep copy in the region, numbers in their plainest form. NULL: no memory. */
yyjson_val *idem__value_copy(region *memory, yyjson_val *value);

/* Comparing and hashing may go as deep as `depth`; `steps` is spent as values are visited. */
typedef struct value_budget {
  uint32_t depth;
  uint64_t steps;
  region *scratch;
  bool exhausted; /* depth or steps ran out: the answer means nothing */
  bool no_memory;
} value_budget;

uint64_t idem__value_hash(yyjson_val *value, value_budget *budget);
bool idem__value_equal(yyjson_val *a, yyjson_val *b, value_budget *budget);
idem_status idem__value_set_build(region *memory, yyjson_val *const *values, uint32_t count,
                                  value_budget *budget, value_set *out);
bool idem__value_set_has(const value_set *set, yyjson_val *value, value_budget *budget);

/* Whether a property has this name: short ones are compared as two words. */
static inline bool idem__property_is(const property *p, const char *name, size_t len,
                                     idem__words words) {
  return p->len == len && p->words.head == words.head && p->words.tail == words.tail &&
         (len <= 16 || memcmp(p->name, name, len) == 0);
}
/* Finds a name among the properties; UINT32_MAX when unknown. */
uint32_t idem__property_find(const object_rules *rules, const char *name, size_t len);

/* ----------------------------------------------------------- documents */

/* A registered or built-in document; NULL when unknown. */
typedef struct registered {
  yyjson_doc *doc;
  char *uri;
  size_t uri_len;
  size_t bytes;
} registered;
const registered *idem__registry_find(const idem_schema_registry *registry, const char *uri,
                                      size_t len);
/* The text of a meta-schema we carry. */
const char *idem__metaschema(const char *uri, size_t len, size_t *text_len);

/* Resolves `reference` against `base` (RFC 3986 section 5) into the region; NULL: no memory. */
char *idem__uri_resolve(region *memory, const char *base, size_t base_len, const char *reference,
                        size_t reference_len, size_t *out_len);

/* ------------------------------------------------------------- formats */

/* The number of a format we can assert; 0 for others. */
uint8_t idem__format_find(const char *name, size_t len);
const char *idem__format_name(uint8_t format);
bool idem__format_wants_label(uint8_t format);
/* Whether the string has the format. */
typedef struct format_env {
  const regex *label;
  regex_matcher *matcher;
  const idem_alloc *alloc;
  bool no_memory, limit; /* out: the answer means nothing */
} format_env;
bool idem__format_check(uint8_t format, const char *text, size_t len, format_env *env);

/* ---------------------------------------------------------------- names */

/* Edit distance, at most `bound` (bound + 1 means more). Compares bytes. */
uint32_t idem__edit_distance(const char *a, size_t a_len, const char *b, size_t b_len,
                             uint32_t bound);
const char *idem__suggest_property(const object_rules *rules, const char *name, size_t len);

/* Code points in valid UTF-8. */
static inline uint64_t idem__code_points(const char *text, size_t len) {
  uint64_t count = 0;
  for (size_t i = 0; i < len; i++) count += ((uint8_t)text[i] & 0xc0) != 0x80;
  return count;
}

/* ------------------------------------------------------------ schema paths */

/* Appends "#/properties/x" (with the document's URI in front where it is not the first one). */
idem_status idem__schema_path(const idem_schema *schema, node_id id, idem_buf *out);
/* Appends a JSON Pointer token, escaped. */
idem_status idem__pointer_token(idem_buf *out, const char *token, size_t len);

#endif
