/* print.h - results for people and for pipes: texts as texts, bytes as files or pictures, JSON as JSON.
 * What a server says reaches a terminal escaped, a pipe byte for byte. */
#ifndef IDEM_CLI_CALL_PRINT_H
#define IDEM_CLI_CALL_PRINT_H

#include "call.h"

#include <stdio.h>
#include <yyjson.h>

#define PRINT_FILES 256u /* of one result: a server must not fill the folder */

typedef struct call_printer {
  const call_options *options;
  FILE *out;
  FILE *file;       /* of -o FILE, once it is open; NULL: stdout */
  bool terminal;    /* `out` is one */
  unsigned files;   /* written so far; more than PRINT_FILES are not */
  bool at_terminal; /* bytes were to go to one: refused, and stderr has said so */
  bool failed;      /* a file could not be written; stderr has said so */
} call_printer;

/* Whether -o can be written to, as far as that is known before the result is there. False: stderr has said why. */
bool printer_may_write(const char *output);
void printer_open(call_printer *self, const call_options *options);
/* What was written is there, or `failed`. */
void printer_close(call_printer *self);
/* Each to -o FILE, where a file is named and the result has no bytes that go there.
 * A tool's content, or its structured content as JSON where that is wanted. */
void print_tool(call_printer *self, yyjson_val *result, yyjson_val *content, yyjson_val *structured,
                bool is_error);
void print_resource(call_printer *self, yyjson_val *result);
void print_prompt(call_printer *self, yyjson_val *result);
void print_completion(call_printer *self, yyjson_val *result);
/* Any value: indented on a terminal, else one line. */
void print_json(call_printer *self, yyjson_val *value);

/* A picture in the terminal's own protocol; false: it has none for this. */
bool inline_image(FILE *out, const char *mime_type, const char *base64, size_t len);

#endif
