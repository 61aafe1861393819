/* validate.c - judges a value by a node: its kind, the rules for that kind, the rules for every
 * kind, and last what is left unevaluated. One interpreter serves verdicts and errors; the bounds
 * of the run are checked on the way. */
#include "validate.h"

bool idem__run_limit(run *r, const char *which) {
  if (r->status == IDEM_OK) {
    r->status = IDEM_E_LIMIT;
    r->limit = which;
  }
  r->steps = 0;
  r->collect = false;
  return false;
}

bool idem__run_no_memory(run *r) {
  if (r->status == IDEM_OK) r->status = IDEM_E_NOMEM;
  r->steps = 0;
  r->collect = false;
  return false;
}

bool idem__run_match(run *r, const regex *pattern, const char *text, size_t len) {
  bool matched = false;
  if (!idem__run_spend(r, len / 64)) return false;
  idem_status status = idem__regex_match(pattern, &r->ctx->matcher, text, len, &matched);
  if (status == IDEM_E_NOMEM) return idem__run_no_memory(r);
  if (status != IDEM_OK) return idem__run_limit(r, "max_regex_steps");
  return matched;
}

/* ----------------------------------------------------------------- marks */

bool idem__marks_init(run *r, marks *m, size_t count) {
  *m = (marks){.count = count};
  m->bits = &m->few;
  if (count <= 64) return true;
  if (!idem__run_spend(r, count / 64)) return false;
  m->bits = idem__region_zeroed(&r->ctx->scratch, (count + 63) / 64 * sizeof *m->bits);
  return m->bits ? true : idem__run_no_memory(r);
}

void idem__marks_merge(marks *into, const marks *from) {
  into->all |= from->all;
  if (into->all) return;
  for (size_t i = 0; i < (into->count + 63) / 64; i++) into->bits[i] |= from->bits[i];
}

/* Evaluates a branch that may fail without failing the whole: errors are not recorded, and what it
 * marked counts only when it succeeds. */
static bool try_branch(run *r, node_id id, yyjson_val *value, const frame *at, marks *m) {
  bool was_quiet = r->quiet, was_collecting = r->collect;
  r->quiet = true;
  r->collect = false;
  bool good;
  if (m && !m->all) {
    region_mark mark = idem__region_marked(&r->ctx->scratch);
    marks own;
    good = idem__marks_init(r, &own, m->count) && idem__evaluate(r, id, value, at, &own);
    if (good) idem__marks_merge(m, &own);
    idem__region_release(&r->ctx->scratch, mark);
  } else {
    good = idem__evaluate(r, id, value, at, NULL);
  }
  r->quiet = was_quiet;
  r->collect = was_collecting && r->status == IDEM_OK;
  return good && r->status == IDEM_OK;
}

/* ------------------------------------------------------ rules of every kind */

static bool check_enum(run *r, node_id id, const op *o, yyjson_val *value, const frame *at) {
  value_budget budget = {.depth = r->depth, .steps = r->steps, .scratch = &r->ctx->scratch};
  bool has = idem__value_set_has(o->set, value, &budget);
  r->steps = budget.steps;
  if (budget.no_memory) return idem__run_no_memory(r);
  if (budget.exhausted) return idem__run_limit(r, budget.steps ? "max_depth" : "max_steps");
  return has || idem__complain(r, id, value, at, (complaint){.k = (keyword)o->keyword, .about = o});
}

static bool follow(run *r, node_id target, yyjson_val *value, const frame *at, marks *m) {
  if (r->references == 0) return idem__run_limit(r, "max_references");
  r->references--;
  bool good = idem__evaluate(r, target, value, at, m);
  r->references++;
  return good;
}

/* The outermost resource in scope that has the anchor decides. */
static node_id dynamic_target(run *r, const op *o) {
  node_id target = o->node;
  if (!o->anchor) return target;
  for (const scope_link *s = r->scope; s; s = s->outer) {
    const resource *where = &r->schema->resources[s->resource];
    if (!idem__run_spend(r, 1 + where->anchor_count)) return target;
    for (uint32_t i = 0; i < where->anchor_count; i++)
      if (where->anchors[i].anchor == o->anchor) target = where->anchors[i].node;
  }
  return target;
}

static bool check_all(run *r, const op *o, yyjson_val *value, const frame *at, marks *m) {
  bool good = true;
  for (uint32_t i = 0; i < o->count; i++)
    if (!idem__evaluate(r, o->nodes[i], value, at, m)) {
      if (!r->collect) return false;
      good = false;
    }
  return good;
}

/* Where nothing matched but only one branch is about this kind of value, its errors say more. */
static void explain_branch(run *r, const op *o, yyjson_val *value, const frame *at) {
  uint32_t fitting = 0, which = 0;
  for (uint32_t i = 0; i < o->count; i++) {
    const node *n = &r->schema->nodes[o->nodes[i]];
    uint8_t kinds = n->kinds & KIND_INTEGER ? n->kinds | KIND_NUMBER : n->kinds;
    if (n->verdict != NODE_RULES || !(kinds & idem__kind(value))) continue;
    fitting++;
    which = i;
  }
  if (fitting == 1 && r->collect) idem__evaluate(r, o->nodes[which], value, at, NULL);
}

static bool check_any(run *r, node_id id, const op *o, yyjson_val *value, const frame *at,
                      marks *m) {
  bool good = false;
  for (uint32_t i = 0; i < o->count && r->status == IDEM_OK; i++)
    if (try_branch(r, o->nodes[i], value, at, m)) {
      good = true;
      if (!m || m->all) return true;
    }
  if (good || r->status != IDEM_OK) return good;
  idem__complain(r, id, value, at, (complaint){.k = KEYWORD_ANY_OF, .about = o});
  if (!r->quiet) explain_branch(r, o, value, at);
  return false;
}

static bool check_one(run *r, node_id id, const op *o, yyjson_val *value, const frame *at,
                      marks *m) {
  size_t first = SIZE_MAX;
  for (uint32_t i = 0; i < o->count && r->status == IDEM_OK; i++) {
    if (!try_branch(r, o->nodes[i], value, at, m)) continue;
    if (first != SIZE_MAX)
      return idem__complain(
          r, id, value, at,
          (complaint){.k = KEYWORD_ONE_OF, .about = o, .first = first, .second = i});
    first = i;
  }
  if (first != SIZE_MAX || r->status != IDEM_OK) return first != SIZE_MAX;
  idem__complain(r, id, value, at, (complaint){.k = KEYWORD_ONE_OF, .about = o, .first = SIZE_MAX});
  if (!r->quiet) explain_branch(r, o, value, at);
  return false;
}

static bool check_condition(run *r, const op *o, yyjson_val *value, const frame *at, marks *m) {
  if (o->then == NODE_NONE && o->otherwise == NODE_NONE && !m) return true;
  node_id next = try_branch(r, o->node, value, at, m) ? o->then : o->otherwise;
  if (r->status != IDEM_OK) return false;
  return next == NODE_NONE || idem__evaluate(r, next, value, at, m);
}

static bool check_op(run *r, node_id id, const op *o, yyjson_val *value, const frame *at,
                     marks *m) {
  switch ((op_kind)o->kind) {
  case OP_ENUM: return check_enum(r, id, o, value, at);
  case OP_REF: return follow(r, o->node, value, at, m);
  case OP_DYNAMIC_REF: return follow(r, dynamic_target(r, o), value, at, m);
  case OP_ALL_OF: return check_all(r, o, value, at, m);
  case OP_ANY_OF: return check_any(r, id, o, value, at, m);
  case OP_ONE_OF: return check_one(r, id, o, value, at, m);
  case OP_NOT:
    if (!try_branch(r, o->node, value, at, NULL)) return r->status == IDEM_OK;
    return idem__complain(r, id, value, at, (complaint){.k = KEYWORD_NOT, .about = o});
  case OP_IF: return check_condition(r, o, value, at, m);
  }
  return false;
}

/* ------------------------------------------------------------- unevaluated */

static bool check_unevaluated_properties(run *r, node_id rest, yyjson_val *value, const frame *at,
                                         const marks *m) {
  bool good = true;
  size_t count = idem__length(value);
  if (!idem__run_spend(r, count / 8)) return false;
  yyjson_val *key = value + 1;
  for (size_t i = 0; i < count; i++, key = idem__next(key + 1)) {
    if (idem__marked(m, i)) continue;
    frame inside = {.parent = at, .key = key};
    if (idem__evaluate(r, rest, key + 1, &inside, NULL)) continue;
    if (!r->collect) return false;
    good = false;
  }
  return good;
}

static bool check_unevaluated_items(run *r, node_id rest, yyjson_val *value, const frame *at,
                                    const marks *m) {
  bool good = true;
  size_t count = idem__length(value);
  if (!idem__run_spend(r, count / 8)) return false;
  yyjson_val *item = value + 1;
  for (size_t i = 0; i < count; i++, item = idem__next(item)) {
    if (idem__marked(m, i)) continue;
    frame inside = {.parent = at, .index = i};
    if (idem__evaluate(r, rest, item, &inside, NULL)) continue;
    if (!r->collect) return false;
    good = false;
  }
  return good;
}

/* ---------------------------------------------------------------- the story */

/* A raw number without point and exponent is an integer; the others must be read. */
static bool is_integer(const yyjson_val *value) {
  if ((value->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_RAW) {
    size_t i = 0, len = idem__length(value);
    if (len && value->uni.str[0] == '-') i = 1;
    while (i < len && value->uni.str[i] >= '0' && value->uni.str[i] <= '9') i++;
    if (i == len && len) return true;
  } else if ((value->tag & YYJSON_SUBTYPE_MASK) != YYJSON_SUBTYPE_REAL) {
    return true;
  }
  number n = idem__number_of(value);
  return idem__number_is_integer(&n);
}

static bool check_kind(run *r, const node *n, node_id id, yyjson_val *value, uint8_t kind,
                       const frame *at) {
  if (kind == KIND_NUMBER && (n->kinds & KIND_INTEGER)) {
    bool raw = (value->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_RAW;
    if (raw && !idem__run_spend(r, idem__length(value) / 64)) return false;
    if (is_integer(value)) return true;
  }
  return idem__complain(r, id, value, at, (complaint){.k = KEYWORD_TYPE});
}

static bool check_rules(run *r, const node *n, node_id id, yyjson_val *value, uint8_t kind,
                        const frame *at, marks *m) {
  switch (kind) {
  case KIND_NUMBER: return !n->numbers || idem__check_number(r, id, value, at);
  case KIND_STRING: return !n->strings || idem__check_string(r, id, value, at);
  case KIND_ARRAY: return !n->arrays || idem__check_array(r, id, value, at, m);
  case KIND_OBJECT: return !n->objects || idem__check_object(r, id, value, at, m);
  default: return true;
  }
}

static bool check_parts(run *r, const node *n, node_id id, yyjson_val *value, uint8_t kind,
                        const frame *at, marks *m) {
  bool good = check_rules(r, n, id, value, kind, at, m);
  for (uint32_t i = 0; i < n->op_count && (good || r->collect); i++)
    good &= check_op(r, id, &n->ops[i], value, at, m);
  return good;
}

/* A node with unevaluated... keeps its own marks: it must not see those of its cousins. */
static bool check_tracked(run *r, const node *n, node_id id, yyjson_val *value, uint8_t kind,
                          const frame *at, marks *m) {
  region_mark mark = idem__region_marked(&r->ctx->scratch);
  marks own;
  if (!idem__marks_init(r, &own, idem__length(value))) return false;
  bool good = check_parts(r, n, id, value, kind, at, &own);
  if (good || r->collect) {
    uint32_t references = r->references;
    r->references = r->max_references;
    good &= kind == KIND_OBJECT
                ? check_unevaluated_properties(r, n->unevaluated_properties, value, at, &own)
                : check_unevaluated_items(r, n->unevaluated_items, value, at, &own);
    r->references = references;
  }
  if (m) m->all = true;
  idem__region_release(&r->ctx->scratch, mark);
  return good;
}

static bool check_inside(run *r, const node *n, node_id id, yyjson_val *value, uint8_t kind,
                         const frame *at, marks *m) {
  if (r->depth == 0) return idem__run_limit(r, "max_depth");
  r->depth--;
  bool tracked =
      (kind == KIND_OBJECT && n->tracks_properties) || (kind == KIND_ARRAY && n->tracks_items);
  bool good = tracked ? check_tracked(r, n, id, value, kind, at, m)
                      : check_parts(r, n, id, value, kind, at, m);
  r->depth++;
  return good;
}

/* Remembers that another resource was entered, for $dynamicRef. */
static bool check_in_scope(run *r, const node *n, node_id id, yyjson_val *value, uint8_t kind,
                           const frame *at, marks *m) {
  scope_link link = {.outer = r->scope, .resource = n->resource};
  r->scope = &link;
  bool good = check_inside(r, n, id, value, kind, at, m);
  r->scope = link.outer;
  return good;
}

/* Scalars end here: no depth, no scope, nothing to track. */
static bool check_scalar(run *r, const node *n, node_id id, yyjson_val *value, uint8_t kind,
                         const frame *at) {
  bool good = true;
  if (kind == KIND_NUMBER && n->numbers) good = idem__check_number(r, id, value, at);
  if (kind == KIND_STRING && n->strings) good = idem__check_string(r, id, value, at);
  if (n->only_enum && (good || r->collect)) good &= check_enum(r, id, n->ops, value, at);
  return good;
}

/* Branches that look at the same value again would each look at all inside it again: the cost would double with each
 * level. A verdict that was good holds for all; one that was bad only where its errors are not wanted. */
__attribute__((noinline)) static bool check_remembered(run *r, const node *n, node_id id,
                                                       yyjson_val *value, uint8_t kind,
                                                       const frame *at) {
  memo *verdicts = &r->ctx->verdicts;
  uint64_t values = (uint64_t)(idem__next(r->root) - r->root);
  if (!verdicts->shift && !idem__memo_begin(verdicts, &r->ctx->alloc, values)) {
    r->memo_below = 0;
    return check_inside(r, n, id, value, kind, at, NULL);
  }
  uint64_t key = idem__memo_key(id, (uint32_t)(value - r->root));
  uint64_t *slot = idem__memo_slot(verdicts, key);
  if (*slot == (key | 1)) return true;
  if (*slot == key && (r->quiet || r->truncated)) return false;
  bool good = check_inside(r, n, id, value, kind, at, NULL);
  if (r->status == IDEM_OK) *slot = key | good;
  return good;
}

/* Kept out of line, so that the way of most values stays short. */
__attribute__((noinline)) static bool evaluate_closely(run *r, node_id id, yyjson_val *value,
                                                       const frame *at, marks *m) {
  const node *n = &r->schema->nodes[id];
  uint8_t kind = idem__kind(value);
  if (r->steps == 0) return idem__run_limit(r, "max_steps");
  r->steps--;
  if (n->verdict == NODE_FALSE)
    return idem__complain(r, id, value, at, (complaint){.k = KEYWORD_NONE});
  bool good = (n->kinds & kind) || check_kind(r, n, id, value, kind, at);
  if (!good && !r->collect) return false;
  if (n->plain_scalars && kind < KIND_ARRAY) return check_scalar(r, n, id, value, kind, at) && good;
  if (r->schema->dynamic && (!r->scope || r->scope->resource != n->resource))
    return check_in_scope(r, n, id, value, kind, at, m) && good;
  if (r->steps < r->memo_below && kind >= KIND_ARRAY && !m && good)
    return check_remembered(r, n, id, value, kind, at);
  return check_inside(r, n, id, value, kind, at, m) && good;
}

bool idem__evaluate(run *r, node_id id, yyjson_val *value, const frame *at, marks *m) {
  const node *n = &r->schema->nodes[id];
  uint8_t kind = idem__kind(value);
  if (n->quick & kind) return true;
  if (n->op_count == 0 && (n->kinds & kind) && r->steps > 0) { /* not quick: there are rules */
    if (kind == KIND_NUMBER) {
      r->steps--;
      return idem__check_number(r, id, value, at);
    }
    if (kind == KIND_STRING) {
      r->steps--;
      return idem__check_string(r, id, value, at);
    }
  }
  return evaluate_closely(r, id, value, at, m);
}
