/* page.h - lists in pages, written once for each snapshot and revision; cursors are positions. */
#ifndef IDEM_MCP_PAGE_H
#define IDEM_MCP_PAGE_H

#include "worker.h"

void idem__write_position(idem__writer *writer, const char *key, size_t position);
bool idem__parse_position(yyjson_val *cursor, int64_t *position);
void idem__page_reply(idem__context *context, idem__list_kind kind, yyjson_val *params);
void idem__pages_free(idem__worker_lists *lists);

#endif
