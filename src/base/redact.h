/* redact.h - what the two halves of redaction share, and nobody else needs.
 * redact.c walks the text; redact_rules.c knows what a key, a credential and a path look like. */
#ifndef IDEM_BASE_REDACT_H
#define IDEM_BASE_REDACT_H

#include "base.h"

#define IDEM__REDACTED "[redacted]"

typedef enum idem__key_kind {
  IDEM__KEY_PLAIN = 0, /* nothing to hide */
  IDEM__KEY_SECRET,    /* its value is one word, string, object or array */
  IDEM__KEY_HEADER     /* its value is the rest of the line */
} idem__key_kind;

typedef struct idem__key {
  idem__key_kind kind;
  bool quoted;    /* the name stood in quotes, as in JSON */
  bool flag;      /* the name begins with "--", as on a command line */
  char fence;     /* a quote that stood right before an unquoted name, or 0 */
  size_t slashes; /* how many backslashes stood before that quote */
} idem__key;

/* Reads the name that ends right before text[at] (a separator); true if its value must go. */
bool idem__key_before(const char *text, size_t at, idem__key *key);

/* The end of a quoted string whose content begins at `at` and whose opening quote had `slashes`
 * backslashes before it: the position of its closing quote, or len. */
size_t idem__quoted_end(const char *text, size_t len, size_t at, size_t slashes);
/* The position of the next `quote` that no backslash precedes, or len. */
size_t idem__quote_end(const char *text, size_t len, size_t at, char quote);

/* The end of what stands between two quotes of either kind, without the backslashes that belong to the
 * closing one; len if it is not closed. */
size_t idem__fenced_end(const char *text, size_t len, size_t at, char fence, size_t slashes);

/* Whether credentials stand at word start `at`: "Bearer x", "Basic x" or a token known by its look;
 * text[*from..*end) is what must go. */
bool idem__credential_at(const char *text, size_t len, size_t at, size_t *from, size_t *end);

/* The end of the path that begins at `at`, or 0 when none does. */
size_t idem__path_at(const char *text, size_t len, size_t at);
/* Where the path that begins at `at` ends; `fence` is the quote before it (with `slashes`
 * backslashes before that), or 0. */
size_t idem__path_end(const char *text, size_t len, size_t at, char fence, size_t slashes);

#endif
