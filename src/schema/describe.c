/* describe.c - says in words what a node wants and what a value is.
 * What comes from an instance is quoted, escaped and cut, and only when the caller asked for it;
 * what comes from the schema is its author's and may be shown. */
#include "describe.h"

#define SHOWN_BYTES 64
#define SHOWN_CONSTANTS 12
#define SHOWN_BRANCHES 6

#define TRY(call)                                                                                  \
  do {                                                                                             \
    idem_status tried_ = (call);                                                                   \
    if (tried_ != IDEM_OK) return tried_;                                                          \
  } while (0)

idem_status idem__describe_text(const char *text, size_t len, idem_buf *out) {
  TRY(idem_buf_puts(out, "\""));
  TRY(idem_text_escape(out, text, len, SHOWN_BYTES));
  return idem_buf_puts(out, "\"");
}

idem_status idem__describe_number(const number *n, idem_buf *out) {
  char text[64];
  idem__number_print(n, text, sizeof text);
  return idem_buf_put(out, text, strlen(text));
}

static idem_status put_counted(idem_buf *out, const char *what, size_t count, const char *unit) {
  return idem_buf_printf(out, "%s of %zu %s%s", what, count, unit, count == 1 ? "" : "s");
}

static idem_status put_kind_of(const yyjson_val *value, idem_buf *out) {
  switch (idem__kind(value)) {
  case KIND_NULL: return idem_buf_puts(out, "null");
  case KIND_BOOLEAN: return idem_buf_puts(out, "a boolean");
  case KIND_STRING: return idem_buf_puts(out, "a string");
  case KIND_ARRAY: return put_counted(out, "an array", idem__length(value), "item");
  case KIND_OBJECT: return idem_buf_puts(out, "an object");
  default: break;
  }
  number n = idem__number_of(value);
  return idem__number_is_integer(&n) ? idem_buf_puts(out, "an integer")
                                     : idem_buf_puts(out, "a number");
}

idem_status idem__describe_value(const yyjson_val *value, bool show, idem_buf *out) {
  if (!show) return put_kind_of(value, out);
  number n;
  switch (idem__kind(value)) {
  case KIND_BOOLEAN:
    return yyjson_is_true((yyjson_val *)(uintptr_t)value) ? idem_buf_puts(out, "true")
                                                          : idem_buf_puts(out, "false");
  case KIND_STRING:
    TRY(idem_buf_puts(out, "the string "));
    return idem__describe_text(value->uni.str, idem__length(value), out);
  case KIND_NUMBER: n = idem__number_of(value); return idem__describe_number(&n, out);
  default: return put_kind_of(value, out);
  }
}

static idem_status put_constant(const yyjson_val *value, idem_buf *out) {
  if (idem__kind(value) == KIND_STRING)
    return idem__describe_text(value->uni.str, idem__length(value), out);
  if (idem__kind(value) == KIND_NULL) return idem_buf_puts(out, "null");
  return idem__describe_value(value, true, out);
}

idem_status idem__describe_set(const value_set *set, idem_buf *out) {
  if (set->count == 0) return idem_buf_puts(out, "nothing (the enum is empty)");
  if (set->count > 1) TRY(idem_buf_puts(out, "one of "));
  uint32_t shown = set->count > SHOWN_CONSTANTS ? SHOWN_CONSTANTS : set->count;
  for (uint32_t i = 0; i < shown; i++) {
    if (i) TRY(idem_buf_puts(out, ", "));
    TRY(put_constant(set->values[i], out));
  }
  if (shown < set->count)
    return idem_buf_printf(out, " or %u more", (unsigned)(set->count - shown));
  return IDEM_OK;
}

static idem_status put_kinds(uint8_t kinds, idem_buf *out) {
  static const struct {
    uint8_t kind;
    const char *name;
  } names[] = {{KIND_STRING, "string"},   {KIND_INTEGER, "integer"}, {KIND_NUMBER, "number"},
               {KIND_BOOLEAN, "boolean"}, {KIND_ARRAY, "array"},     {KIND_OBJECT, "object"},
               {KIND_NULL, "null"}};
  bool first = true;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!(kinds & names[i].kind)) continue;
    if (!first) TRY(idem_buf_puts(out, " or "));
    TRY(idem_buf_put(out, names[i].name, strlen(names[i].name)));
    first = false;
  }
  return IDEM_OK;
}

idem_status idem__describe_type(const yyjson_val *value, idem_buf *out) {
  uint8_t kind = (uint8_t)idem__kind(value);
  if (kind != KIND_NUMBER) return put_kinds(kind, out);
  number n = idem__number_of(value);
  return put_kinds(idem__number_is_integer(&n) ? KIND_INTEGER : KIND_NUMBER, out);
}

static idem_status put_bound(bool has, const char *sign, const number *bound, bool *first,
                             idem_buf *out) {
  if (!has) return IDEM_OK;
  TRY(idem_buf_printf(out, "%s%s", *first ? " " : " and ", sign));
  *first = false;
  return idem__describe_number(bound, out);
}

static idem_status put_bounds(const number_rules *r, idem_buf *out) {
  bool first = true;
  TRY(put_bound(r->has_minimum, ">= ", &r->minimum, &first, out));
  TRY(put_bound(r->has_exclusive_minimum, "> ", &r->exclusive_minimum, &first, out));
  TRY(put_bound(r->has_maximum, "<= ", &r->maximum, &first, out));
  return put_bound(r->has_exclusive_maximum, "< ", &r->exclusive_maximum, &first, out);
}

/* References and unions are followed a little, so that a choice reads "string or integer". */
static idem_status put_node(const idem_schema *schema, node_id id, unsigned depth, idem_buf *out) {
  const node *n = &schema->nodes[id];
  if (n->verdict == NODE_FALSE) return idem_buf_puts(out, "nothing");
  for (uint32_t i = 0; i < n->op_count; i++) {
    const op *o = &n->ops[i];
    if (o->kind == OP_ENUM) return idem__describe_set(o->set, out);
    if (depth == 0 || n->kinds != KIND_ANY) continue;
    if (o->kind == OP_REF) return put_node(schema, o->node, depth - 1, out);
    if (o->kind != OP_ANY_OF && o->kind != OP_ONE_OF) continue;
    for (uint32_t j = 0; j < o->count && j < SHOWN_BRANCHES; j++) {
      if (j) TRY(idem_buf_puts(out, " or "));
      TRY(put_node(schema, o->nodes[j], depth - 1, out));
    }
    return IDEM_OK;
  }
  if (n->kinds == KIND_ANY && !n->numbers) {
    if (n->objects) return idem_buf_puts(out, "another object");
    return idem_buf_puts(out, "another value");
  }
  TRY(n->kinds == KIND_ANY ? idem_buf_puts(out, "number") : put_kinds(n->kinds, out));
  return n->numbers ? put_bounds(n->numbers, out) : IDEM_OK;
}

idem_status idem__describe_node(const idem_schema *schema, node_id id, idem_buf *out) {
  return put_node(schema, id, 4, out);
}
