/* serve_flags.h - the flags of `idem serve`, a row each: its name, what its value is called, what it does. */
#ifndef IDEM_CLI_SERVE_FLAGS_H
#define IDEM_CLI_SERVE_FLAGS_H

#include "serve.h"

typedef struct serve_flag {
  const char *heading; /* NULL: it belongs to the group above it */
  const char *name;
  const char *value; /* NULL: takes none */
  const char *about;
  bool (*set)(serve_options *self,
              const char *value); /* false: refused; self->why, if it is not only its form */
} serve_flag;

/* NULL: there is none of that name. Then the one that was probably meant; NULL: none. */
const serve_flag *serve_flag_find(const char *text, size_t len);
const char *serve_flag_suggest(const char *text, size_t len);

/* What --stdio and --http do. */
bool serve_add_stdio(serve_options *self, const char *value);
bool serve_add_http(serve_options *self, const char *value);

#endif
