/* uritemplate.h - URI templates (RFC 6570): parsed once, matched against the URIs that are read.
 * Text is seen as tokens: one for each character, however it is spelled, so that "%7E" is "~" and
 * "%c3%a9" is "\xc3\xa9", while "%2F" stays apart from "/". See docs/internals/mcp.md. */
#ifndef IDEM_MCP_URITEMPLATE_H
#define IDEM_MCP_URITEMPLATE_H

#include "../json/json.h"

/* ---------------------------------------------------------------- for all */

typedef struct idem__uri_template idem__uri_template;
typedef struct idem__uri_variable {
  const char *name;
  size_t name_len;
  char *value; /* decoded, NUL-terminated, in the request's memory */
} idem__uri_variable;
idem_status idem__uri_template_parse(const idem_alloc *alloc, const char *text,
                                     idem__uri_template **out);
void idem__uri_template_free(idem__uri_template *pattern, const idem_alloc *alloc);
/* Does the URI match? With an arena, the variables' values too. NOTFOUND, NOMEM. */
idem_status idem__uri_template_match(const idem__uri_template *pattern, const char *uri, size_t len,
                                     idem__arena *arena, idem__uri_variable **variables,
                                     size_t *count);

/* ------------------------------------------------- for parser and matcher */

/* Bounds: they keep a match under a few hundred kilobytes and some milliseconds at the worst. */
#define IDEM__URI_TEMPLATE_MAX 2048u /* bytes of a template */
#define IDEM__URI_MATCH_MAX 8192u    /* bytes of a URI that is matched */
#define IDEM__URI_VARIABLES_MAX 32u
#define IDEM__URI_PARTS_MAX (2 * IDEM__URI_VARIABLES_MAX + 1)

/* A character as it stands (below 128), a byte that is percent-encoded or not ASCII (256 + byte), or
 * what no URI holds. */
typedef uint16_t idem__uri_token;
#define IDEM__URI_ENCODED 256u
#define IDEM__URI_BAD 512u
/* Reads one token of `len` > 0 bytes; returns how many it took. */
size_t idem__uri_token_read(const char *text, size_t len, idem__uri_token *token);
bool idem__uri_is_unreserved(unsigned c);
bool idem__uri_is_reserved(unsigned c);

/* How an expression is written out: RFC 6570, appendix A. */
typedef struct idem__uri_operator {
  char sign;      /* 0: none */
  char first;     /* before the first variable; 0: nothing */
  char separator; /* between variables */
  bool named;     /* name=value */
  bool bare;      /* an empty value has no "=" */
  bool reserved;  /* values may hold reserved characters as they are */
} idem__uri_operator;

typedef struct idem__uri_spec {
  const char *name; /* in the template's text */
  size_t name_len;
  size_t name_at; /* its tokens */
  size_t name_tokens;
  unsigned prefix; /* most characters of the value; 0: all */
  bool explode;
  uint32_t allowed[4]; /* ASCII characters a value may hold as they are */
} idem__uri_spec;

typedef struct idem__uri_part {
  const idem__uri_operator *how; /* NULL: a literal */
  size_t at;                     /* first token of a literal, or first spec */
  size_t count;
} idem__uri_part;

struct idem__uri_template {
  idem_alloc alloc;
  char *text;
  idem__uri_part parts[IDEM__URI_PARTS_MAX];
  size_t part_count;
  idem__uri_spec specs[IDEM__URI_VARIABLES_MAX];
  size_t spec_count;
  size_t token_count;
  idem__uri_token tokens[]; /* literals and names */
};

#endif
