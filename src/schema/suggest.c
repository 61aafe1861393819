/* suggest.c - did you mean? The nearest name within two edits.
 * Long names and large tables are left alone: a suggestion is a courtesy, not worth much work. */
#include "schema.h"

#define MAX_NAME 64
#define MAX_NAMES 1000

static uint32_t least(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t m = a < b ? a : b;
  return m < c ? m : c;
}

/* Edits are insertion, deletion, substitution and the swap of neighbours. */
uint32_t idem__edit_distance(const char *a, size_t a_len, const char *b, size_t b_len,
                             uint32_t bound) {
  size_t gap = a_len > b_len ? a_len - b_len : b_len - a_len;
  if (a_len > MAX_NAME || b_len > MAX_NAME || gap > bound) return bound + 1;
  uint32_t rows[3][MAX_NAME + 1] = {{0}};
  for (uint32_t j = 0; j <= b_len; j++) rows[0][j] = j;
  uint32_t *before = rows[2], *above = rows[0], *here = rows[1];
  for (uint32_t i = 1; i <= a_len; i++) {
    uint32_t smallest = here[0] = i;
    for (uint32_t j = 1; j <= b_len; j++) {
      uint32_t cost = a[i - 1] != b[j - 1];
      here[j] = least(above[j] + 1, here[j - 1] + 1, above[j - 1] + cost);
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && before[j - 2] + 1 < here[j]) here[j] = before[j - 2] + 1;
      if (here[j] < smallest) smallest = here[j];
    }
    if (smallest > bound) return bound + 1;
    uint32_t *oldest = before;
    before = above;
    above = here;
    here = oldest;
  }
  return above[b_len] > bound ? bound + 1 : above[b_len];
}

/* Near enough to be a slip: two edits at most, and no more than a third of the name. */
static bool nearer(const char *name, size_t len, const char *candidate, size_t candidate_len,
                   uint32_t *best) {
  uint32_t distance = idem__edit_distance(name, len, candidate, candidate_len, 2);
  if (distance >= *best || (size_t)distance * 3 > candidate_len) return false;
  *best = distance;
  return true;
}

const char *idem__suggest_property(const object_rules *rules, const char *name, size_t len) {
  const char *found = NULL;
  uint32_t best = 3;
  if (rules->property_count > MAX_NAMES) return NULL;
  for (uint32_t i = 0; i < rules->property_count; i++) {
    const property *p = &rules->properties[i];
    if (p->node != NODE_NONE && nearer(name, len, p->name, p->len, &best)) found = p->name;
  }
  return found;
}

/* Properties may be declared behind references. */
static const char *suggest_in(const idem_schema *schema, node_id id, const char *name, size_t len,
                              unsigned depth) {
  const node *n = &schema->nodes[id];
  const char *found = n->objects ? idem__suggest_property(n->objects, name, len) : NULL;
  for (uint32_t i = 0; i < n->op_count && !found && depth > 0; i++) {
    const op *o = &n->ops[i];
    if (o->kind == OP_REF) found = suggest_in(schema, o->node, name, len, depth - 1);
    if (o->kind != OP_ALL_OF) continue;
    for (uint32_t j = 0; j < o->count && j < 16 && !found; j++)
      found = suggest_in(schema, o->nodes[j], name, len, depth - 1);
  }
  return found;
}

const char *idem_schema_suggest_property(const idem_schema *schema, const char *name, size_t len) {
  return suggest_in(schema, schema->root, name, len, 3);
}

const char *idem_schema_suggest(const char *name, size_t len, const char *const *names,
                                size_t count) {
  const char *found = NULL;
  uint32_t best = 3;
  for (size_t i = 0; i < count && i < MAX_NAMES; i++)
    if (nearer(name, len, names[i], strlen(names[i]), &best)) found = names[i];
  return found;
}
