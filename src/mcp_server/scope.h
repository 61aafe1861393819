/* scope.h - what a caller's token reaches: scopes of methods, and of what is listed. */
#ifndef IDEM_MCP_SCOPE_H
#define IDEM_MCP_SCOPE_H

#include "context.h"
#include "define.h"

/* For a definition: checked and copied; NULL or blank: none. INVAL, with a sentence. */
idem_status idem__entry_set_scopes(idem_server *server, idem__entry *entry, const char *scopes,
                                   char *why, size_t why_len);
void idem__scopes_free(idem_server *server);
/* In the gate: the token holds still, and reaches the method. False: refused. */
bool idem__scope_pass(idem__context *context, const idem__mcp_peer *peer);
/* Whether the caller may use, and so see, an entry. */
bool idem__scope_may_use(const idem__context *context, const idem__entry *entry);
/* Whether what a request is given of it is not for everybody: it, or the method, needs scopes. */
bool idem__scope_keeps(const idem__context *context, const idem__entry *entry);
/* Whether somebody with this grant (NULL: everything) may hear of this resource; one that is not served says nothing. */
bool idem__scope_may_hear(idem__mcp_worker *worker, const idem__grant *grant, const char *uri);
/* As idem__scope_may_use, and who may not is refused. */
bool idem__scope_admit(idem__context *context, const idem__entry *entry);
/* The same for who wants to know something of what that method uses. */
bool idem__scope_admit_use(idem__context *context, const idem__entry *entry, const char *method);
/* What a completion is about, and the method that uses it otherwise (complete.c); NULL: nothing that is served. */
const idem__entry *idem__completion_entry(const idem__context *context, yyjson_val *ref,
                                          const char **use);

#endif
