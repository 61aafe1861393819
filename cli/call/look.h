/* look.h - what a server has, as a table for people or as JSON. */
#ifndef IDEM_CLI_CALL_LOOK_H
#define IDEM_CLI_CALL_LOOK_H

#include "print.h"

#include <idem/mcp_client.h>

#define LOOK_LISTS 4 /* of idem_mcp_list_kind */

typedef struct call_look {
  yyjson_mut_doc *doc; /* lists, by their kind */
  yyjson_mut_val *lists[LOOK_LISTS];
} call_look;

void look_init(call_look *self);
void look_free(call_look *self);
/* A list that came; NULL: the server has none. */
void look_take(call_look *self, idem_mcp_list_kind kind, yyjson_val *items);
void look_print(const call_look *self, call_printer *printer, const idem_mcp_client *client,
                const char *transport);

#endif
