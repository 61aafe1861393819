/* coerce.c - shapes a value the way a schema asks: strings from command lines and forms become the
 * types they spell, absent properties get their defaults.
 * Nothing is judged here; what cannot be turned stays as it is for validation to report. */
#include "schema.h"

#define DEFAULT_DEPTH 64
#define HIGHEST_DEPTH 512
/* How many references and branches are followed to learn what is wanted. */
#define FOLLOW_DEPTH 8
#define MAX_WORK 1000000
#define EVERY_KIND (KIND_ANY | KIND_INTEGER)

typedef struct shaper {
  const idem_schema *schema;
  const idem_schema_shape *shape;
  yyjson_mut_doc *doc;
  idem_status status;
  uint32_t work; /* nodes that may still be looked at: unions can fan out without end */
} shaper;

static yyjson_mut_val *shape_value(shaper *s, node_id id, yyjson_val *value, uint32_t depth);

static yyjson_mut_val *made(shaper *s, yyjson_mut_val *value) {
  if (!value && s->status == IDEM_OK) s->status = IDEM_E_NOMEM;
  return value;
}

static bool work_left(shaper *s) {
  if (s->work > 0) {
    s->work--;
    return true;
  }
  if (s->status == IDEM_OK) s->status = IDEM_E_LIMIT;
  return false;
}

/* -------------------------------------------------------- what is wanted */

static uint8_t wanted_kinds(shaper *s, node_id id, unsigned follow);

static uint8_t wanted_by(shaper *s, const op *o, unsigned follow) {
  uint8_t kinds = 0;
  switch ((op_kind)o->kind) {
  case OP_ENUM: return o->set->kinds & KIND_NUMBER ? o->set->kinds | KIND_INTEGER : o->set->kinds;
  case OP_REF:
  case OP_DYNAMIC_REF: return wanted_kinds(s, o->node, follow - 1);
  case OP_ALL_OF:
    kinds = EVERY_KIND;
    for (uint32_t i = 0; i < o->count; i++) kinds &= wanted_kinds(s, o->nodes[i], follow - 1);
    return kinds;
  case OP_ANY_OF:
  case OP_ONE_OF:
    for (uint32_t i = 0; i < o->count; i++) kinds |= wanted_kinds(s, o->nodes[i], follow - 1);
    return kinds;
  default: return EVERY_KIND;
  }
}

static uint8_t wanted_kinds(shaper *s, node_id id, unsigned follow) {
  if (id == NODE_NONE || !work_left(s)) return EVERY_KIND;
  const node *n = &s->schema->nodes[id];
  if (n->verdict == NODE_TRUE || follow == 0) return EVERY_KIND;
  if (n->verdict == NODE_FALSE) return 0;
  uint8_t kinds = n->kinds & KIND_NUMBER ? n->kinds | KIND_INTEGER : n->kinds;
  for (uint32_t i = 0; i < n->op_count && i < 16; i++) kinds &= wanted_by(s, &n->ops[i], follow);
  return kinds;
}

/* The schema of a member or item, looked for behind references and in branches too. */
typedef struct part {
  const char *name; /* NULL: an item */
  size_t len, index;
} part;

static node_id own_part(const node *n, const part *p) {
  if (!p->name) {
    if (!n->arrays) return NODE_NONE;
    return p->index < n->arrays->prefix_count ? n->arrays->prefix[p->index] : n->arrays->rest;
  }
  if (!n->objects) return NODE_NONE;
  uint32_t i = idem__property_find(n->objects, p->name, p->len);
  if (i != UINT32_MAX && n->objects->properties[i].node != NODE_NONE)
    return n->objects->properties[i].node;
  return n->objects->additional;
}

static node_id find_part(shaper *s, node_id id, const part *p, unsigned follow) {
  if (id == NODE_NONE || follow == 0 || !work_left(s)) return NODE_NONE;
  const node *n = &s->schema->nodes[id];
  node_id found = own_part(n, p);
  for (uint32_t i = 0; i < n->op_count && found == NODE_NONE && i < 16; i++) {
    const op *o = &n->ops[i];
    if (o->kind == OP_REF || o->kind == OP_DYNAMIC_REF)
      found = find_part(s, o->node, p, follow - 1);
    bool group = o->kind == OP_ALL_OF || o->kind == OP_ANY_OF || o->kind == OP_ONE_OF;
    for (uint32_t j = 0; group && j < o->count && j < 64 && found == NODE_NONE; j++)
      found = find_part(s, o->nodes[j], p, follow - 1);
  }
  return found;
}

/* ------------------------------------------------------------ conversions */

static yyjson_mut_val *number_value(shaper *s, const number *n, const char *text, size_t len) {
  if (n->form == NUMBER_INTEGER) return made(s, yyjson_mut_sint(s->doc, n->integer));
  yyjson_val real = {0};
  char spelled[64];
  if (len < sizeof spelled) { /* a double, where it says the same */
    memcpy(spelled, text, len);
    spelled[len] = 0;
    if (idem__json_number_of(spelled, &real)) {
      number back = idem__number_of(&real);
      if (yyjson_is_real(&real) && idem__number_equal(n, &back))
        return made(s, yyjson_mut_real(s->doc, real.uni.f64));
    }
  }
  return made(s, yyjson_mut_rawncpy(s->doc, text, len));
}

/* JSON does not know 007 or +1: such text stays a string. */
static bool is_json_number(const char *text, size_t len) {
  size_t digits = len && text[0] == '-';
  return digits < len && !(len > digits + 1 && text[digits] == '0' && text[digits + 1] >= '0' &&
                           text[digits + 1] <= '9');
}

static yyjson_mut_val *shape_spelled(shaper *s, node_id id, yyjson_val *value, uint8_t wanted,
                                     uint32_t depth) {
  yyjson_read_err error = {0};
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)value->uni.str, idem__length(value),
                                     YYJSON_READ_BIGNUM_AS_RAW, &s->doc->alc, &error);
  if (error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) s->status = IDEM_E_NOMEM;
  yyjson_val *root = yyjson_doc_get_root(doc);
  yyjson_mut_val *out = NULL;
  bool fits = root && (wanted & idem__kind(root)) &&
              idem__json_depth_within(doc, idem__length(value), IDEM__JSON_DEPTH_MAX);
  if (fits) s->status = idem__json_keep_last(doc, root);
  if (fits && s->status == IDEM_OK) out = shape_value(s, id, root, depth);
  yyjson_doc_free(doc);
  return out;
}

static yyjson_mut_val *wrap_in_array(shaper *s, node_id id, yyjson_val *value, uint32_t depth) {
  part item = {.index = 0};
  node_id child = find_part(s, id, &item, FOLLOW_DEPTH);
  yyjson_mut_val *list = made(s, yyjson_mut_arr(s->doc));
  yyjson_mut_val *only = list ? shape_value(s, child, value, depth + 1) : NULL;
  return only && yyjson_mut_arr_append(list, only) ? list : NULL;
}

/* NULL: the string does not spell anything that is wanted. */
static yyjson_mut_val *convert(shaper *s, node_id id, yyjson_val *value, uint8_t wanted,
                               uint32_t depth) {
  const char *text = value->uni.str;
  size_t len = idem__length(value);
  if ((wanted & KIND_INTEGER) && is_json_number(text, len)) {
    number n = idem__number_parse(text, len);
    if (n.form != NUMBER_BAD && ((wanted & KIND_NUMBER) || idem__number_is_integer(&n)))
      return number_value(s, &n, text, len);
  }
  if ((wanted & KIND_BOOLEAN) && yyjson_equals_str(value, "true"))
    return made(s, yyjson_mut_true(s->doc));
  if ((wanted & KIND_BOOLEAN) && yyjson_equals_str(value, "false"))
    return made(s, yyjson_mut_false(s->doc));
  if ((wanted & KIND_NULL) && (len == 0 || yyjson_equals_str(value, "null")))
    return made(s, yyjson_mut_null(s->doc));
  if (((wanted & KIND_ARRAY) && len && text[0] == '[') ||
      ((wanted & KIND_OBJECT) && len && text[0] == '{')) {
    yyjson_mut_val *spelled = shape_spelled(s, id, value, wanted, depth);
    if (spelled || s->status != IDEM_OK) return spelled;
  }
  return wanted & KIND_ARRAY ? wrap_in_array(s, id, value, depth) : NULL;
}

/* --------------------------------------------------------------- defaults */

static void fill_from(shaper *s, node_id id, yyjson_mut_val *object, unsigned follow);

/* A linear search, paid for: defaults are few. */
static bool has_member(shaper *s, yyjson_mut_val *object, const property *p) {
  size_t members = yyjson_mut_obj_size(object);
  s->work -= (uint32_t)(members < s->work ? members : s->work);
  return yyjson_mut_obj_getn(object, p->name, p->len) != NULL;
}

static void fill_own(shaper *s, const object_rules *rules, yyjson_mut_val *object) {
  for (uint32_t i = 0; i < rules->property_count && s->status == IDEM_OK; i++) {
    const property *p = &rules->properties[i];
    if (p->node == NODE_NONE || !work_left(s)) continue;
    yyjson_val *value = s->schema->nodes[p->node].default_value;
    if (!value || has_member(s, object, p)) continue;
    yyjson_mut_val *key = made(s, yyjson_mut_strncpy(s->doc, p->name, p->len));
    yyjson_mut_val *copy = made(s, yyjson_val_mut_copy(s->doc, value));
    if (key && copy) yyjson_mut_obj_add(object, key, copy);
  }
}

/* Branches are not followed: which of them applies is not decided here. */
static void fill_from(shaper *s, node_id id, yyjson_mut_val *object, unsigned follow) {
  if (id == NODE_NONE || follow == 0 || !work_left(s)) return;
  const node *n = &s->schema->nodes[id];
  if (n->objects) fill_own(s, n->objects, object);
  for (uint32_t i = 0; i < n->op_count && s->status == IDEM_OK; i++) {
    const op *o = &n->ops[i];
    if (o->kind == OP_REF || o->kind == OP_DYNAMIC_REF) fill_from(s, o->node, object, follow - 1);
    for (uint32_t j = 0; o->kind == OP_ALL_OF && j < o->count && j < 64; j++)
      fill_from(s, o->nodes[j], object, follow - 1);
  }
}

/* ---------------------------------------------------------------- the walk */

static yyjson_mut_val *shape_array(shaper *s, node_id id, yyjson_val *value, uint32_t depth) {
  yyjson_mut_val *list = made(s, yyjson_mut_arr(s->doc));
  size_t i, max;
  yyjson_val *item;
  yyjson_arr_foreach(value, i, max, item) {
    part p = {.index = i};
    node_id child = find_part(s, id, &p, FOLLOW_DEPTH);
    yyjson_mut_val *out = list ? shape_value(s, child, item, depth + 1) : NULL;
    if (!out || !yyjson_mut_arr_append(list, out)) return NULL;
  }
  return list;
}

static yyjson_mut_val *shape_object(shaper *s, node_id id, yyjson_val *value, uint32_t depth) {
  yyjson_mut_val *object = made(s, yyjson_mut_obj(s->doc));
  size_t i, max;
  yyjson_val *key, *member;
  idem_each_member(value, i, max, key, member) {
    part p = {.name = key->uni.str, .len = idem__length(key)};
    node_id child = find_part(s, id, &p, FOLLOW_DEPTH);
    yyjson_mut_val *name = object ? made(s, yyjson_mut_strncpy(s->doc, p.name, p.len)) : NULL;
    yyjson_mut_val *out = name ? shape_value(s, child, member, depth + 1) : NULL;
    if (!out || !yyjson_mut_obj_add(object, name, out)) return NULL;
  }
  if (object && s->shape->fill_defaults) fill_from(s, id, object, FOLLOW_DEPTH);
  return s->status == IDEM_OK ? object : NULL;
}

static yyjson_mut_val *shape_value(shaper *s, node_id id, yyjson_val *value, uint32_t depth) {
  uint32_t limit = s->shape->max_depth ? s->shape->max_depth : DEFAULT_DEPTH;
  if (depth > (limit < HIGHEST_DEPTH ? limit : HIGHEST_DEPTH)) {
    s->status = IDEM_E_LIMIT;
    return NULL;
  }
  uint8_t kind = idem__kind(value);
  if (kind == KIND_STRING && s->shape->coerce) {
    uint8_t wanted = wanted_kinds(s, id, FOLLOW_DEPTH);
    yyjson_mut_val *out = wanted & KIND_STRING ? NULL : convert(s, id, value, wanted, depth);
    if (out || s->status != IDEM_OK) return out;
  }
  if (kind == KIND_ARRAY) return shape_array(s, id, value, depth);
  if (kind == KIND_OBJECT) return shape_object(s, id, value, depth);
  return made(s, yyjson_val_mut_copy(s->doc, value));
}

idem_status idem_schema_apply(const idem_schema *schema, yyjson_val *value,
                              const idem_schema_shape *shape, yyjson_mut_doc *doc,
                              yyjson_mut_val **out) {
  static const idem_schema_shape none = {0};
  shaper s = {.schema = schema, .shape = shape ? shape : &none, .doc = doc, .work = MAX_WORK};
  *out = NULL;
  if (!value || !doc) return IDEM_E_INVAL;
  *out = shape_value(&s, schema->root, value, 0);
  if (s.status != IDEM_OK) *out = NULL;
  return s.status;
}
