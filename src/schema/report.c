/* report.c - turns a complaint into an error people and language models can act on.
 * Runs only when something is wrong. The parts are built in one reused buffer and kept in the
 * context's error region. */
#include "describe.h"
#include "validate.h"

#define MAX_FRAMES 512
#define DEFAULT_ROOT "value"

#define TRY(call)                                                                                  \
  do {                                                                                             \
    idem_status tried_ = (call);                                                                   \
    if (tried_ != IDEM_OK) return tried_;                                                          \
  } while (0)

typedef struct report {
  run *r;
  node_id id;
  const node *n;
  const yyjson_val *value;
  const frame *at;
  const complaint *what;
  idem_buf *out;
} report;

/* ---------------------------------------------------------------- where */

/* The innermost frames, outermost first; deeper paths lose their beginning, marked "...". */
static size_t gather_frames(const frame *at, const frame **list) {
  size_t count = 0;
  for (const frame *f = at; f && f->parent && count < MAX_FRAMES; f = f->parent) list[count++] = f;
  return count;
}

static idem_status put_token(const frame *f, idem_buf *out) {
  if (!f->key) return idem_buf_printf(out, "/%zu", f->index);
  TRY(idem_buf_puts(out, "/"));
  const char *text = f->key->uni.str;
  size_t len = idem__length(f->key), from = 0;
  for (size_t i = 0; i <= len; i++) {
    if (i < len && text[i] != '~' && text[i] != '/') continue;
    TRY(idem_text_escape(out, text + from, i - from, 256));
    if (i < len) TRY(text[i] == '~' ? idem_buf_puts(out, "~0") : idem_buf_puts(out, "~1"));
    from = i + 1;
  }
  return IDEM_OK;
}

static idem_status put_instance_path(report *p) {
  const frame *list[MAX_FRAMES];
  size_t count = gather_frames(p->at, list);
  while (count > 0) TRY(put_token(list[--count], p->out));
  return IDEM_OK;
}

static idem_status put_schema_path(report *p) {
  TRY(idem__schema_path(p->r->schema, p->id, p->out));
  if (p->what->k == KEYWORD_NONE) return IDEM_OK;
  return idem_buf_printf(p->out, "/%s", idem__keyword_text(p->what->k));
}

static bool is_plain_name(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    char c = text[i];
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                 (i > 0 && ((c >= '0' && c <= '9') || c == '-'));
    if (!plain) return false;
  }
  return len > 0 && len <= 64;
}

/* arguments.items[2]["odd name"] */
static idem_status put_readable_path(report *p) {
  const frame *list[MAX_FRAMES];
  size_t count = gather_frames(p->at, list);
  const char *root = p->r->check->root_name ? p->r->check->root_name : DEFAULT_ROOT;
  TRY(idem_buf_put(p->out, root, strlen(root)));
  while (count > 0) {
    const frame *f = list[--count];
    if (!f->key) {
      TRY(idem_buf_printf(p->out, "[%zu]", f->index));
    } else if (is_plain_name(f->key->uni.str, idem__length(f->key))) {
      TRY(idem_buf_puts(p->out, "."));
      TRY(idem_buf_put(p->out, f->key->uni.str, idem__length(f->key)));
    } else {
      TRY(idem_buf_puts(p->out, "["));
      TRY(idem__describe_text(f->key->uni.str, idem__length(f->key), p->out));
      TRY(idem_buf_puts(p->out, "]"));
    }
  }
  return IDEM_OK;
}

/* ------------------------------------------------------- expected, received */

static idem_status put_at_least(report *p, const char *how, uint64_t count, const char *unit) {
  return idem_buf_printf(p->out, "%s %llu %s%s", how, (unsigned long long)count, unit,
                         count == 1 ? "" : (strcmp(unit, "property") ? "s" : ""));
}

static idem_status put_number_expected(report *p) {
  if (p->what->k != KEYWORD_MULTIPLE_OF) return idem__describe_node(p->r->schema, p->id, p->out);
  TRY(idem_buf_puts(p->out, "a multiple of "));
  return idem__describe_number(&p->n->numbers->multiple, p->out);
}

static idem_status put_named(report *p, const char *before, const property *name) {
  TRY(idem_buf_put(p->out, before, strlen(before)));
  return idem__describe_text(name->name, name->len, p->out);
}

static idem_status put_required(report *p) {
  TRY(put_named(p, "property ", p->what->name));
  node_id child = p->what->name->node;
  if (child != NODE_NONE && p->r->schema->nodes[child].verdict == NODE_RULES) {
    TRY(idem_buf_puts(p->out, " ("));
    TRY(idem__describe_node(p->r->schema, child, p->out));
    TRY(idem_buf_puts(p->out, ")"));
  }
  if (p->what->needer) return put_named(p, " whenever there is ", p->what->needer);
  return IDEM_OK;
}

static idem_status put_alternatives(report *p) {
  if (p->what->k == KEYWORD_ONE_OF && p->what->first != SIZE_MAX)
    return idem_buf_printf(p->out, "exactly one of %u alternatives to match",
                           (unsigned)p->what->about->count);
  return idem__describe_node(p->r->schema, p->id, p->out);
}

static idem_status put_expected(report *p) {
  const node *n = p->n;
  switch (p->what->k) {
  case KEYWORD_MINIMUM:
  case KEYWORD_MAXIMUM:
  case KEYWORD_EXCLUSIVE_MINIMUM:
  case KEYWORD_EXCLUSIVE_MAXIMUM:
  case KEYWORD_MULTIPLE_OF: return put_number_expected(p);
  case KEYWORD_ENUM:
  case KEYWORD_CONST: return idem__describe_set(p->what->about->set, p->out);
  case KEYWORD_MIN_LENGTH: return put_at_least(p, "at least", n->strings->min_length, "character");
  case KEYWORD_MAX_LENGTH: return put_at_least(p, "at most", n->strings->max_length, "character");
  case KEYWORD_PATTERN:
    TRY(idem_buf_puts(p->out, "a string matching "));
    return idem_text_escape(p->out, idem__regex_source(n->strings->pattern),
                            strlen(idem__regex_source(n->strings->pattern)), 200);
  case KEYWORD_FORMAT:
    return idem_buf_printf(p->out, "a string in the format %s",
                           idem__format_name(n->strings->format));
  case KEYWORD_MIN_ITEMS: return put_at_least(p, "at least", n->arrays->min_items, "item");
  case KEYWORD_MAX_ITEMS: return put_at_least(p, "at most", n->arrays->max_items, "item");
  case KEYWORD_UNIQUE_ITEMS: return idem_buf_puts(p->out, "items that all differ");
  case KEYWORD_CONTAINS:
  case KEYWORD_MIN_CONTAINS:
    return put_at_least(p, "at least", n->arrays->min_contains, "matching item");
  case KEYWORD_MAX_CONTAINS:
    return put_at_least(p, "at most", n->arrays->max_contains, "matching item");
  case KEYWORD_MIN_PROPERTIES:
    return idem_buf_printf(p->out, "at least %llu properties",
                           (unsigned long long)n->objects->min_properties);
  case KEYWORD_MAX_PROPERTIES:
    return idem_buf_printf(p->out, "at most %llu properties",
                           (unsigned long long)n->objects->max_properties);
  case KEYWORD_REQUIRED:
  case KEYWORD_DEPENDENT_REQUIRED:
  case KEYWORD_DEPENDENCIES: return put_required(p);
  case KEYWORD_ADDITIONAL_PROPERTIES: return idem_buf_puts(p->out, "only known properties");
  case KEYWORD_ANY_OF:
  case KEYWORD_ONE_OF: return put_alternatives(p);
  case KEYWORD_NOT: return idem_buf_puts(p->out, "a value that does not match `not`");
  case KEYWORD_NONE: return idem_buf_puts(p->out, "nothing here");
  default: return idem__describe_node(p->r->schema, p->id, p->out);
  }
}

static const char *smaller_or_larger(keyword k) {
  switch (k) {
  case KEYWORD_MINIMUM:
  case KEYWORD_EXCLUSIVE_MINIMUM: return "a number that is too small";
  case KEYWORD_MAXIMUM:
  case KEYWORD_EXCLUSIVE_MAXIMUM: return "a number that is too large";
  case KEYWORD_MULTIPLE_OF: return "a number that is not";
  case KEYWORD_PATTERN:
  case KEYWORD_FORMAT: return "a string that is not";
  default: return NULL;
  }
}

static idem_status put_unknown_property(report *p) {
  TRY(idem_buf_puts(p->out, "the unknown property "));
  TRY(idem__describe_text(p->value->uni.str, idem__length(p->value), p->out));
  const char *near =
      idem__suggest_property(p->what->rules, p->value->uni.str, idem__length(p->value));
  if (!near) return IDEM_OK;
  TRY(idem_buf_puts(p->out, ", did you mean "));
  TRY(idem__describe_text(near, strlen(near), p->out));
  return idem_buf_puts(p->out, "?");
}

/* A string that is not among the constants may be a slip of one that is. */
static idem_status put_near_constant(report *p) {
  const value_set *set = p->what->about->set;
  const yyjson_val *best = NULL;
  uint32_t near = 3;
  if (idem__kind(p->value) != KIND_STRING || idem__length(p->value) > 64 || set->count > 1000)
    return IDEM_OK;
  for (uint32_t i = 0; i < set->count; i++) {
    if (idem__kind(set->values[i]) != KIND_STRING) continue;
    size_t len = idem__length(set->values[i]);
    uint32_t distance = idem__edit_distance(p->value->uni.str, idem__length(p->value),
                                            set->values[i]->uni.str, len, 2);
    if (distance >= near || (size_t)distance * 3 > len) continue;
    near = distance;
    best = set->values[i];
  }
  if (!best) return IDEM_OK;
  TRY(idem_buf_puts(p->out, ", did you mean "));
  TRY(idem__describe_text(best->uni.str, idem__length(best), p->out));
  return idem_buf_puts(p->out, "?");
}

static idem_status put_constant_received(report *p, bool show) {
  bool same_kind = p->what->about->set->kinds & idem__kind(p->value);
  if (same_kind && !show && idem__kind(p->value) == KIND_STRING)
    TRY(idem_buf_puts(p->out, "another string"));
  else
    TRY(idem__describe_value(p->value, show, p->out));
  return put_near_constant(p);
}

static idem_status put_received(report *p, bool show) {
  const complaint *what = p->what;
  const char *vague = show ? NULL : smaller_or_larger(what->k);
  if (vague) return idem_buf_put(p->out, vague, strlen(vague));
  switch (what->k) {
  case KEYWORD_TYPE:
    return show ? idem__describe_value(p->value, true, p->out)
                : idem__describe_type(p->value, p->out);
  case KEYWORD_ENUM:
  case KEYWORD_CONST: return put_constant_received(p, show);
  case KEYWORD_MIN_LENGTH:
  case KEYWORD_MAX_LENGTH:
    return show ? idem__describe_value(p->value, true, p->out)
                : idem_buf_printf(p->out, "%zu", what->first);
  case KEYWORD_MIN_ITEMS:
  case KEYWORD_MAX_ITEMS:
  case KEYWORD_CONTAINS:
  case KEYWORD_MIN_CONTAINS:
  case KEYWORD_MAX_CONTAINS:
  case KEYWORD_MIN_PROPERTIES:
  case KEYWORD_MAX_PROPERTIES: return idem_buf_printf(p->out, "%zu", what->first);
  case KEYWORD_UNIQUE_ITEMS:
    return idem_buf_printf(p->out, "the same value at %zu and %zu", what->first, what->second);
  case KEYWORD_REQUIRED:
  case KEYWORD_DEPENDENT_REQUIRED:
  case KEYWORD_DEPENDENCIES: return idem_buf_puts(p->out, "an object without it");
  case KEYWORD_ADDITIONAL_PROPERTIES: return put_unknown_property(p);
  case KEYWORD_ONE_OF:
    if (what->first != SIZE_MAX)
      return idem_buf_printf(p->out, "a value that matches alternatives %zu and %zu", what->first,
                             what->second);
    break;
  default: break;
  }
  return idem__describe_value(p->value, show, p->out);
}

/* --------------------------------------------------------------- sentences */

static idem_status put_sentence(report *p, bool show) {
  TRY(put_readable_path(p));
  TRY(idem_buf_puts(p->out, ": expected "));
  TRY(put_expected(p));
  TRY(idem_buf_puts(p->out, ", received "));
  return put_received(p, show);
}

static idem_status put_shown(report *p) { return put_sentence(p, p->r->check->show_values); }
static idem_status put_hidden(report *p) { return put_sentence(p, false); }
static idem_status put_received_asked(report *p) {
  return put_received(p, p->r->check->show_values);
}

/* ---------------------------------------------------------------- keeping */

/* Builds one string; what passes the buffer's maximum is cut, not lost. */
static const char *build(report *p, idem_status (*part)(report *)) {
  p->out->len = 0;
  idem_status status = part(p);
  if (status == IDEM_E_NOMEM) return NULL;
  size_t len = p->out->len ? idem_utf8_cut(p->out->data, p->out->len, p->out->len) : 0;
  return idem__region_text(&p->r->ctx->error_memory, p->out->data, len);
}

static bool build_error(report *p, idem_schema_error *e) {
  *e = (idem_schema_error){.keyword = idem__keyword_text(p->what->k)};
  e->instance_path = build(p, put_instance_path);
  e->schema_path = e->instance_path ? build(p, put_schema_path) : NULL;
  e->expected = e->schema_path ? build(p, put_expected) : NULL;
  e->received = e->expected ? build(p, put_received_asked) : NULL;
  e->sentence = e->received ? build(p, put_shown) : NULL;
  e->log_sentence = p->r->check->show_values && e->sentence ? build(p, put_hidden) : e->sentence;
  return e->log_sentence != NULL;
}

static bool room_for_error(run *r) {
  idem_schema_ctx *ctx = r->ctx;
  if (r->error_count < ctx->error_capacity) return true;
  uint32_t capacity = ctx->error_capacity ? ctx->error_capacity * 2 : 8;
  idem_schema_error *grown = idem__realloc(
      &ctx->alloc, ctx->errors, ctx->error_capacity * sizeof *grown, capacity * sizeof *grown);
  if (!grown) return false;
  ctx->errors = grown;
  ctx->error_capacity = capacity;
  return true;
}

static void record(run *r, node_id id, const yyjson_val *value, const frame *at,
                   const complaint *what) {
  if (r->error_count >= r->max_errors) {
    r->truncated = true;
    r->collect = false;
    return;
  }
  report p = {.r = r,
              .id = id,
              .n = &r->schema->nodes[id],
              .value = value,
              .at = at,
              .what = what,
              .out = &r->ctx->text};
  if (!room_for_error(r) || !build_error(&p, &r->ctx->errors[r->error_count]))
    idem__run_no_memory(r);
  else
    r->error_count++;
}

bool idem__complain(run *r, node_id id, const yyjson_val *value, const frame *at, complaint what) {
  if (!r->quiet && r->status == IDEM_OK) record(r, id, value, at, &what);
  return false;
}
