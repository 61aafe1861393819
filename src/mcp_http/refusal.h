/* refusal.h - the insides of a client's way over HTTP, shared by client.c and refusal.c. */
#ifndef IDEM_MCP_HTTP_REFUSAL_H
#define IDEM_MCP_HTTP_REFUSAL_H

#include "client.h"

#define IDEM__MCP_PARKED 1024 /* messages that wait for a session */

struct idem__mcp_web {
  idem_alloc alloc;
  idem_mcp_client *client;
  idem__http_client *http; /* NULL: not yet, or no longer */
  char *url;
  char *session;                  /* of the older era; NULL: none */
  char *endpoint;                 /* of the older transport: where messages go */
  char **lines;                   /* headers that a program gave after a refusal; ends with NULL */
  uint64_t lines_since;           /* requests that were made before it did */
  bool old;                       /* HTTP+SSE */
  bool streaming;                 /* the standing stream was opened */
  bool greeting;                  /* "initialized" must be out before anything else */
  idem__http_post *greeting_post; /* and is under way */
  unsigned renewals;
  idem__http_post *parked[IDEM__MCP_PARKED];
  size_t parked_count;
  idem_list refusals;
};

idem__http_verdict idem__mcp_refusal_begin(idem__mcp_web *web, idem__http_post *post,
                                           const idem__http_outcome *outcome);
/* The post is gone (NULL: all are): its refusal is nobody's. */
void idem__mcp_refusals_leave(idem__mcp_web *web, const idem__http_post *post);
void idem__mcp_lines_free(idem__mcp_web *web);
bool idem__mcp_is_line(const char *line);

#endif
