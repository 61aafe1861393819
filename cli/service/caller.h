/* caller.h - who asked, for lines of the operator's log: a name, and the claims that the file wants to see there. */
#ifndef IDEM_CLI_CALLER_H
#define IDEM_CLI_CALLER_H

#include <idem/mcp.h>
#include <idem/text.h>

#define CALLER_MAX 2048u

/* `named`: callers have names, since there is "auth". */
void caller_begin(bool named);
/* ", for NAME claim=word", as much of it as fits; nothing where callers have no names. */
void caller_put(const idem_request *request, idem_buf *line);

#endif
