/* form.h - a server's question put to a person: a form field by field, or a page to visit.
 * Blocking, as terminal.h. */
#ifndef IDEM_CLI_CALL_FORM_H
#define IDEM_CLI_CALL_FORM_H

#include "terminal.h"

#include <yyjson.h>

typedef enum form_end { FORM_ACCEPTED, FORM_DECLINED, FORM_DISMISSED } form_end;

/* `params` are those of elicitation/create. The content comes as the text of an object. */
form_end form_ask(const terminal *at, const char *server, yyjson_val *params, text *content);
/* The whole URL is shown; it is opened only if the person says so, and then *open is set. */
form_end form_ask_url(const terminal *at, const char *server, yyjson_val *params, bool *open);

#endif
