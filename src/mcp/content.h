/* content.h - content blocks, written as a revision knows them; building them is in <idem/mcp.h>. */
#ifndef IDEM_MCP_CONTENT_H
#define IDEM_MCP_CONTENT_H

#include "../json/build.h"
#include "revision.h"

/* Blocks that a revision does not know become text; members that it does not know are left out. */
void idem__content_write(yyjson_val *blocks, const idem__revision *revision, idem__writer *writer);
void idem__content_write_block(yyjson_val *block, const idem__revision *revision,
                               idem__writer *writer);

#endif
