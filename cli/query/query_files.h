/* query_files.h - how SQLite opens the files of databases here. */
#ifndef IDEM_CLI_QUERY_FILES_H
#define IDEM_CLI_QUERY_FILES_H

#include "config/config.h"

/* The VFS to open a tool's database with; NULL: SQLite's own. */
const char *query_files_vfs(const tool_config *tool);

#endif
