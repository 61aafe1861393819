/* validate.h - what the files of idem-validate share. */
#ifndef IDEM_VALIDATE_H
#define IDEM_VALIDATE_H

#include <idem/schema.h>
#include <stdio.h>

enum { EXIT_VALID = 0, EXIT_INVALID = 1, EXIT_USAGE = 2 };

typedef struct settings {
  idem_schema_opts compile;
  idem_schema_check check;
  idem_schema_registry *registry;
  bool json;
  bool quiet;
  bool optional; /* --suite also enters folders named optional */
  bool draft_given;
  const char *remotes; /* --suite: where registered documents come from */
} settings;

/* A whole file, or standard input for "-". NULL after saying why on stderr. */
char *read_file(const char *path, size_t *len);
/* The errors of one instance, as text or as a JSON line. */
void print_result(const settings *s, const char *name, idem_status status,
                  const idem_schema_result *result);
void print_json_string(FILE *out, const char *text);
/* Runs suite files under `path`; adds to the counts. False after a failure to read. */
bool run_suite(settings *s, const char *path, size_t *passed, size_t *failed);

#endif
