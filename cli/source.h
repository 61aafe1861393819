/* source.h - a configuration file as it was written, and where in it something stands.
 * JSON with comments and trailing commas. Faults are printed as path:line:column: sentence. */
#ifndef IDEM_CLI_SOURCE_H
#define IDEM_CLI_SOURCE_H

#include <idem/base.h>
#include <yyjson.h>

typedef struct config_source {
  char *path;   /* as it was given */
  char *folder; /* the real folder it is in: what relative paths are relative to */
  char *text;   /* as it was written */
  char *parsed; /* strings and numbers of `doc` stand here at the same offsets as in `text` */
  size_t len;
  yyjson_doc *doc;
  unsigned faults;
  idem_log *log; /* who is told of faults; NULL: stderr */
} config_source;

/* False: it cannot be read or is no JSON, and the log or stderr says why. source_free either way. */
bool source_read(config_source *self, const char *path, idem_log *log);
void source_free(config_source *self);

/* Says what is wrong at a value or key of the document. */
void source_fault(config_source *self, yyjson_val *at, const char *format, ...) IDEM_PRINTF(3, 4);
/* The key or value that a JSON Pointer leads to, or as near as it gets. */
yyjson_val *source_find(const config_source *self, const char *pointer);
/* Checks the document against the schema in `schema_text`; false: it has faults, which were told. */
bool source_check(config_source *self, const char *schema_text);

#endif
