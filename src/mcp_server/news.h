/* news.h - what legacy sessions are told outside their requests: changes, log lines, the status of their
 * tasks, the end of a visit they were asked for. */
#ifndef IDEM_MCP_NEWS_H
#define IDEM_MCP_NEWS_H

#include "nouns.h"

/* A notification, and which sessions it is for. */
typedef struct idem__mcp_news {
  const char *method;
  const char *params; /* JSON object; NULL: none */
  size_t len;
  const char *uri;     /* those who subscribed to it; NULL: not by that */
  const char *session; /* the one of this name; NULL: not by that */
  int level;           /* those who want log lines of it; -1: it is none */
} idem__mcp_news;

/* Is it for this session? HTTP asks with its table's lock held. */
bool idem__session_wants(const idem__mcp_session *session, const idem__mcp_news *news);
/* Params that say which resource may have changed. */
idem_status idem__updated_params(idem_buf *out, const char *uri);
/* Tells the peers of one worker, on its thread. */
void idem__worker_tell(idem__mcp_worker *worker, const idem__mcp_news *news);
/* ... of every worker, from any thread: it is copied. NOMEM; LIMIT: too much waits. */
idem_status idem__server_tell(idem_server *server, const idem__mcp_news *news);
/* Its store was away, and news of resources may have been told meanwhile: line peers and those who listen look again at what they
 * subscribed to. Sessions over HTTP are its subscribers' affair. */
void idem__worker_remind(idem__mcp_worker *worker);
/* What waits for this worker. */
void idem__worker_tell_waiting(idem__mcp_worker *worker);
void idem__worker_forget_news(idem__mcp_worker *worker);

/* elicitation.c: a session was asked to visit an address under this id. */
void idem__elicitation_expect(const idem__context *context, const char *id);
/* Somebody who shares the store says that one is complete. NOTFOUND: not one of ours. */
idem_status idem__elicitation_complete(idem_server *server, const char *id, size_t len);
void idem__elicitations_free(idem_server *server);
#define IDEM__NEWS_CARRIED '\2' /* begins what one process carries to another: see src/mcp_http */
#define IDEM__NEWS_ELICITATION '\1' /* begins the name of such news in the store; no URI does */

#endif
