/* validate.h - one validation at work: what validate.c, kinds.c and report.c share. */
#ifndef IDEM_SCHEMA_VALIDATE_H
#define IDEM_SCHEMA_VALIDATE_H

#include "memo.h"
#include "schema.h"

/* Where in the instance: a chain on the C stack, made into a path only when something is wrong. */
typedef struct frame {
  const struct frame *parent;
  const yyjson_val *key; /* NULL: an array item */
  size_t index;
} frame;

/* Which members or items of one value have been evaluated; kept only where unevaluated... asks. */
typedef struct marks {
  uint64_t *bits;
  uint64_t few; /* where the bits are when 64 are enough */
  size_t count;
  bool all;
} marks;

static inline void idem__mark(marks *m, size_t i) { m->bits[i / 64] |= (uint64_t)1 << (i % 64); }
static inline bool idem__marked(const marks *m, size_t i) {
  return m->all || (m->bits[i / 64] >> (i % 64) & 1);
}

/* The resources entered so far, innermost first; kept only for $dynamicRef. */
typedef struct scope_link {
  const struct scope_link *outer;
  uint32_t resource;
} scope_link;

struct idem_schema_ctx {
  idem_alloc alloc;
  region scratch;      /* bit sets, indexes */
  region error_memory; /* the errors of the last validation */
  idem_buf text;       /* one string being made */
  regex_matcher matcher;
  memo verdicts; /* of the run under way, once it is long */
  idem_schema_error *errors;
  uint32_t error_capacity;
  char *pool; /* where small instance texts are parsed */
  size_t pool_size;
};

typedef struct run {
  const idem_schema *schema;
  idem_schema_ctx *ctx;
  const idem_schema_check *check;
  yyjson_val *root;
  uint64_t steps;
  uint64_t
      memo_below; /* with so many steps left it is long enough to remember verdicts; 0: never */
  uint32_t depth, references; /* left */
  uint32_t max_references, max_errors;
  bool quiet;   /* errors are not recorded: inside anyOf, not, if, ... */
  bool collect; /* go on after an error */
  bool truncated;
  uint32_t error_count;
  idem_status status;
  const char *limit;
  const scope_link *scope;
} run;

bool idem__evaluate(run *r, node_id id, yyjson_val *value, const frame *at, marks *m);
/* The same for a member or an item, with the shortest way for values that need no rules. */
static inline bool idem__evaluate_inside(run *r, node_id id, yyjson_val *value, const frame *at) {
  return (r->schema->nodes[id].quick & idem__kind(value)) || idem__evaluate(r, id, value, at, NULL);
}

/* Rules for one kind of value. */
bool idem__check_number(run *r, node_id id, yyjson_val *value, const frame *at);
bool idem__check_string(run *r, node_id id, yyjson_val *value, const frame *at);
bool idem__check_array(run *r, node_id id, yyjson_val *value, const frame *at, marks *m);
bool idem__check_object(run *r, node_id id, yyjson_val *value, const frame *at, marks *m);

/* Ends the run: a bound was reached, or memory ran out. Returns false. */
bool idem__run_limit(run *r, const char *which);
bool idem__run_no_memory(run *r);
static inline bool idem__run_spend(run *r, uint64_t steps) {
  if (r->steps < steps) return idem__run_limit(r, "max_steps");
  r->steps -= steps;
  return true;
}
bool idem__run_match(run *r, const regex *pattern, const char *text, size_t len);
/* Sets of marks; the bits of large ones come from the scratch region. */
bool idem__marks_init(run *r, marks *m, size_t count);
void idem__marks_merge(marks *into, const marks *from);

/* What went wrong beyond the keyword; unused members are zero. */
typedef struct complaint {
  keyword k;
  const op *about;        /* enum, anyOf, ... */
  const property *name;   /* required and dependent names */
  const property *needer; /* what made it required */
  const object_rules *rules;
  size_t first, second; /* counts or indexes */
} complaint;

/* Records an error unless the run is quiet. Always returns false. */
bool idem__complain(run *r, node_id id, const yyjson_val *value, const frame *at, complaint what);

#endif
