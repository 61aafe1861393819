/* revision.h - the version table: what each revision of MCP does, and which fields it knows.
 * The rest of the folder asks for flags, never for dates. */
#ifndef IDEM_MCP_REVISION_H
#define IDEM_MCP_REVISION_H

#include "../rpc/rpc.h"

#include <idem/mcp.h>

/* What a revision does, and which fields it knows. */
enum {
  IDEM__R_MODERN = 1 << 0,           /* no handshake; _meta on every request */
  IDEM__R_BATCH = 1 << 1,            /* batches are accepted */
  IDEM__R_INPUT_FAILS_TOOL = 1 << 2, /* bad arguments are an isError result, not -32602 */
  IDEM__R_COMPLETIONS = 1 << 3,      /* the completions capability exists */
  IDEM__R_PROGRESS_MESSAGE = 1 << 4,
  IDEM__R_TASKS = 1 << 5,          /* the core form of tasks (2025-11-25) */
  IDEM__R_URL_ERROR = 1 << 6,      /* -32042 exists */
  IDEM__R_VERSION_HEADER = 1 << 7, /* MCP-Protocol-Version is checked */
  IDEM__R_PRIME_EVENT = 1 << 8,    /* streams begin with an empty event that has an id */
  IDEM__F_TITLE = 1 << 9,
  IDEM__F_TOOL_ANNOTATIONS = 1 << 10,
  IDEM__F_AUDIO = 1 << 11,
  IDEM__F_RESOURCE_LINK = 1 << 12,
  IDEM__F_STRUCTURED = 1 << 13,     /* outputSchema and structuredContent, objects only */
  IDEM__F_STRUCTURED_ANY = 1 << 14, /* ... of any type */
  IDEM__F_META = 1 << 15,           /* _meta on tools, resources, prompts, contents */
  IDEM__F_ICONS = 1 << 16,
  IDEM__F_IMPLEMENTATION = 1 << 17, /* description and websiteUrl of the server */
  IDEM__F_LAST_MODIFIED = 1 << 18,  /* in annotations */
  IDEM__F_COMPLETE_CONTEXT = 1 << 19,
  IDEM__F_ELICIT = 1 << 20,
  IDEM__F_ELICIT_URL = 1 << 21,
  IDEM__F_ELICIT_ID = 1 << 22,
  IDEM__F_EXECUTION = 1 << 23, /* Tool.execution.taskSupport */
  IDEM__F_SAMPLING_TOOLS = 1 << 24
};

typedef struct idem__revision {
  const char *date;
  idem_revision bit;
  uint32_t flags;
  idem_code_set codes;
} idem__revision;

#define IDEM__REVISIONS 5
extern const idem__revision idem__revisions[IDEM__REVISIONS]; /* newest first */
const idem__revision *idem__revision_find(const char *date, size_t len);
/* The newest legacy one of these revisions (bits of idem_revision); NULL: none. */
const idem__revision *idem__revision_legacy(uint32_t revisions);
static inline bool idem__revision_has(const idem__revision *revision, uint32_t flag) {
  return (revision->flags & flag) != 0;
}
static inline size_t idem__revision_index(const idem__revision *revision) {
  return (size_t)(revision - idem__revisions);
}

#endif
