/* progress.h - one line on a terminal that says how far a call is; nothing in a pipe. */
#ifndef IDEM_CLI_CALL_PROGRESS_H
#define IDEM_CLI_CALL_PROGRESS_H

#include <idem/mcp_client.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct call_progress {
  bool terminal; /* stderr is one */
  bool shown;    /* the line is there */
  uint64_t drawn_ms;
} call_progress;

void progress_init(call_progress *self);
void progress_show(call_progress *self, const idem_mcp_progress *news, uint64_t now_ms);
/* Takes the line away, before anything else is printed. */
void progress_clear(call_progress *self);

#endif
