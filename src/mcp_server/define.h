/* define.h - taking in definitions of tools, resources and prompts: texts are checked and copied, and
 * whoever gave something else hears a sentence. */
#ifndef IDEM_MCP_DEFINE_H
#define IDEM_MCP_DEFINE_H

#include "nouns.h"

/* Checks JSON text of a definition and copies it compact; INVAL unless it begins with `open`. */
idem_status idem__definition_json(idem_server *server, const char *text, char open, char **out);
/* The same, for who needs the values, too: the document, its numbers raw, is the caller's. */
idem_status idem__definition_read(idem_server *server, const char *text, char open, char **out,
                                  yyjson_doc **doc);
/* INVAL, with a sentence in `why` if there is room for one. */
idem_status idem__definition_refuse(char *why, size_t why_len, const char *sentence);
/* The two together, for the JSON texts of a definition in turn. */
typedef struct idem__definition_text {
  const char *text;
  char open;
  char **out;
  const char *sentence;
} idem__definition_text;
idem_status idem__definition_copy(idem_server *server, const idem__definition_text *texts,
                                  size_t count, char *why, size_t why_len);

#endif
