/* describe.h - says in words what a node wants and what a value is. */
#ifndef IDEM_SCHEMA_DESCRIBE_H
#define IDEM_SCHEMA_DESCRIBE_H

#include "schema.h"

/* "integer >= 1", "string or null", "one of "a", "b"", "array". */
idem_status idem__describe_node(const idem_schema *schema, node_id id, idem_buf *out);
/* The constants of enum and const, at most a few of them. */
idem_status idem__describe_set(const value_set *set, idem_buf *out);
/* "a string", "an array of 3 items"; with `show`, scalars are quoted. */
idem_status idem__describe_value(const yyjson_val *value, bool show, idem_buf *out);
/* "integer": as schemas call it. */
idem_status idem__describe_type(const yyjson_val *value, idem_buf *out);
/* Text that may be hostile, in quotes, escaped and cut. */
idem_status idem__describe_text(const char *text, size_t len, idem_buf *out);
idem_status idem__describe_number(const number *n, idem_buf *out);

#endif
