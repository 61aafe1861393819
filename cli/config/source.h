/* source.h - a configuration file as it was written, and where in it something stands.
 * JSON with comments and trailing commas. Faults are printed as path:line:column: sentence. */
#ifndef IDEM_CLI_SOURCE_H
#define IDEM_CLI_SOURCE_H

#include "service/watch.h"
#include <idem/json.h>

#include <idem/base.h>
#include <yyjson.h>

/* The files that a reading looked at, as they were then. Outlives the configuration, so that a
 * faulty one is read again when it is mended. */
#define SOURCE_FILES 64
typedef struct source_files {
  char *paths[SOURCE_FILES];
  file_stamp stamps[SOURCE_FILES];
  size_t count;
} source_files;
void source_files_clear(source_files *self);

typedef struct config_source {
  char *path;   /* as it was given */
  char *folder; /* the real folder it is in: what relative paths are relative to */
  char *text;   /* strings and numbers of `doc` stand here where they stand in the file */
  size_t len;
  uint32_t *lines; /* where each begins */
  size_t line_count;
  yyjson_doc *doc;
  unsigned faults;
  yyjson_val **broken; /* parts that the schema refuses: nobody may read them */
  size_t broken_count;
  idem_log *log;       /* who is told of faults; NULL: stderr */
  source_files *files; /* NULL: nobody wants to know */
} config_source;

/* False: it cannot be read or is no JSON, and the log or stderr says why. source_free either way. */
bool source_read(config_source *self, const char *path, idem_log *log, source_files *files);
/* Call before a file is read. */
void source_note_file(config_source *self, const char *path);
void source_free(config_source *self);

/* Says what is wrong at a value or key of the document. */
void source_fault(config_source *self, yyjson_val *at, const char *format, ...) IDEM_PRINTF(3, 4);
/* Says something about it that is no fault. */
void source_note(const config_source *self, yyjson_val *at, const char *format, ...)
    IDEM_PRINTF(3, 4);
/* The key of that name in an object; NULL: there is none. */
yyjson_val *source_key(yyjson_val *object, const char *name, size_t len);
/* The key or value that a JSON Pointer leads to, or as near as it gets. */
yyjson_val *source_find(const config_source *self, const char *pointer);
/* Checks the document against the schema in `schema_text` and tells its faults; false: they are such that
 * nothing of it can be read. Else all of it can but for what is broken. */
bool source_check(config_source *self, const char *schema_text);
/* Whether the schema refuses this: a member of the document, or a member of that, such as one tool. */
bool source_is_broken(const config_source *self, yyjson_val *value);

#endif
