/* header.h - the headers of 2026-07-28 that mirror the message: Mcp-Method, Mcp-Name, and Mcp-Param-*
 * for what a tool's schema marks with x-mcp-header. How values are spelled in them, both ways. */
#ifndef IDEM_MCP_HEADER_H
#define IDEM_MCP_HEADER_H

#include "../json/json.h"

#define IDEM__HEADER_VALUE_MAX 8192u

/* One argument that a header mirrors. */
typedef struct idem__header_rule {
  char *header; /* "mcp-param-region", lower case */
  char **path;  /* property names from the root, NULL-terminated */
  char type;    /* 's'tring, 'i'nteger, 'b'oolean */
} idem__header_rule;
typedef struct idem__header_rules {
  idem__header_rule *rules;
  size_t count;
} idem__header_rules;
/* Finds x-mcp-header annotations, into an empty `out`, which is freed whatever comes back. INVAL: one breaks a
 * rule, and *why (may be NULL) ends a sentence that begins with its name. NOMEM. */
idem_status idem__header_rules_find(const idem_alloc *alloc, yyjson_val *schema,
                                    idem__header_rules *out, const char **why);
void idem__header_rules_free(idem__header_rules *rules, const idem_alloc *alloc);

/* The argument that a rule is about; NULL: it is not given, or null. */
yyjson_val *idem__header_argument(const idem__header_rule *rule, yyjson_val *arguments);
/* Whether a decoded header says what the argument does. */
bool idem__header_agrees(const idem__header_rule *rule, yyjson_val *val, const char *text,
                         size_t len);
/* Appends the header's value for an argument. INVAL: it is not of the rule's type. */
idem_status idem__header_put_argument(idem_buf *out, const idem__header_rule *rule,
                                      yyjson_val *val);
/* Appends a text as a header can carry it: as it is, or wrapped as =?base64?...?=. */
idem_status idem__header_encode(idem_buf *out, const char *text, size_t len);
/* Whether a header may hold it: what else there is travels as base64. */
bool idem__header_is_text(const char *value, size_t len);
/* =?base64?...?= is decoded; anything else is literal. INVAL: wrapped badly, or no text of a header. */
idem_status idem__header_decode(idem_buf *out, const char *value, size_t len);

#endif
