/* arguments.h - NAME=VALUE words, files and JSON, made into what a tool's schema asks for. */
#ifndef IDEM_CLI_CALL_ARGUMENTS_H
#define IDEM_CLI_CALL_ARGUMENTS_H

#include "call.h"
#include "text.h"

#include <yyjson.h>

typedef struct given_argument {
  const char *name;
  size_t name_len;
  text value;
  yyjson_doc *json; /* of NAME:=JSON; else `value` is a text that the schema gives a type */
} given_argument;

typedef struct call_arguments {
  given_argument *items;
  size_t count;
  yyjson_doc *base; /* -d; NULL: none */
  text base_text;
} call_arguments;

/* Reads the words, files and stdin. False: stderr has said what is wrong; exit status 2. Free either way. */
bool arguments_read(call_arguments *self, const call_options *options);
void arguments_free(call_arguments *self);
/* All of them as the text of an object, by the schema (NULL: texts stay texts). False: they do not fit, and
 * `why` has a line for each fault, the field named. `note` gets what the user should know of a schema that
 * cannot be used. */
bool arguments_make(const call_arguments *self, yyjson_val *schema, text *out, text *why,
                    text *note);
/* Whether the text of an object fits; a schema that cannot be used refuses nothing. */
bool arguments_fit(yyjson_val *schema, const text *arguments);
/* The first as the one to complete; the others are its context. */
const given_argument *arguments_first(const call_arguments *self);

#endif
