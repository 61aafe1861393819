/* draft_node.h - one subschema at work, shared by compile_node.c and compile_rules.c. */
#ifndef IDEM_SCHEMA_DRAFT_NODE_H
#define IDEM_SCHEMA_DRAFT_NODE_H

#include "compile.h"

typedef struct draft_node {
  compiler *c;
  where at;
  node_id self;
  node made;
  op *ops;
  yyjson_val *k[KEYWORD_COUNT]; /* the value of each keyword it has */
} draft_node;

static inline region *idem__draft_memory(draft_node *d) { return &d->c->schema->memory; }
/* Refuses the keyword's value: it must be `what`. */
idem_status idem__draft_wrong(draft_node *d, keyword k, const char *what);
/* A subschema, or a list of them, under a keyword; OK when the keyword is absent (child only). */
idem_status idem__draft_child(draft_node *d, keyword k, node_id *out);
idem_status idem__draft_list(draft_node *d, keyword k, const node_id **out, uint32_t *count);
/* The keywords about the kind of a value, about numbers, strings and arrays. */
idem_status idem__draft_type(draft_node *d);
idem_status idem__draft_numbers(draft_node *d);
idem_status idem__draft_strings(draft_node *d);
idem_status idem__draft_arrays(draft_node *d);

#endif
