/* edition.h - everything that one reading of the configuration came to.
 * A reload makes the next edition; the one before lives until its last call has ended, so that
 * calls finish under the definitions they began with. All on the server's one loop. */
#ifndef IDEM_CLI_EDITION_H
#define IDEM_CLI_EDITION_H

#include "content/content.h"
#include "http/http_tool.h"
#include "program/program.h"
#include "query/query.h"

/* What a tool is called through, whatever its kind. */
typedef struct tool_entry {
  edition *edition;
  size_t index;
} tool_entry;

struct edition {
  serve_config config;
  confinement bounds;
  program_tool *program_tools; /* one for each tool; those of other kinds are not used */
  query_tool *query_tools;
  http_tool *http_tools;
  tool_entry *entries; /* one for each tool */
  content_host content;
  size_t calls;  /* not ended yet, and tools that a server knows */
  edition *next; /* has programs of this one that stay, for which it is held; NULL: none */
  bool retired;  /* another one is served: the last call's end frees it */
};

/* Reads and checks a configuration whole; faults are told to `log`, on stderr if it is NULL.
 * `files` (may be NULL) gets what was looked at, also then. `inputs`: the tools' input schemas are
 * needed, not only by a server. `cautious`: see config_load. NULL: there were faults. */
typedef struct edition_use {
  bool inputs, cautious;
  bool plain; /* its tools are plain methods: not for the mcp profile */
} edition_use;
edition *edition_read(const char *path, idem_log *log, source_files *files, edition_use use);
/* What its tools need to be called; false: told. */
bool edition_open(edition *self, program_host *programs);
/* Who answers calls of a tool. */
void edition_tool_handler(edition *self, size_t index, idem_tool_fn *fn, void **user);
/* Adds all of it to a server; false: told. */
bool edition_fill(edition *self, idem_server *server);
/* Programs that stay and are the same in the next one are passed on to it. */
void edition_pass_on(edition *self, edition *next);
/* Frees it, now or after its last call. */
void edition_retire(edition *self);
/* At the end, when no loop runs any more: whatever its calls say. */
void edition_free(edition *self);

#endif
