/* get_stream.h - the streams that a session's client opens by GET, and who answers on those that it takes up again. */
#ifndef IDEM_MCP_HTTP_GET_STREAM_H
#define IDEM_MCP_HTTP_GET_STREAM_H

#include "mcp_http.h"

/* owner.c: does anybody answer on the stream of a POST? Where its process has died, or has nothing to say any more, the stream's end
 * is put into the log: an error for each id that was to be answered there. */
typedef enum idem__owner_end {
  IDEM__OWNER_WORKS,
  IDEM__OWNER_ENDED,  /* the log has the stream's last event */
  IDEM__OWNER_LOST,   /* nobody knows what was to be answered there */
  IDEM__OWNER_UNKNOWN /* the store does not say */
} idem__owner_end;
typedef struct idem__stream_owner {
  idem__mcp_endpoint *endpoint;
  idem__http_session *session; /* counted by who asks */
  uint64_t stream;
  void (*known)(idem__owner_end end, void *user); /* who asks may go meanwhile: see owner_forget */
  void *user;
  idem__store_pending *pending;
  bool lives, ended, lost; /* as far as was seen */
  idem_buf ids;
} idem__stream_owner;
void idem__stream_owner_ask(idem__stream_owner *owner);
void idem__stream_owner_forget(idem__stream_owner *owner);
/* At a glance: true, it should be asked. */
bool idem__stream_owner_doubtful(idem__http_session *session, uint64_t stream);
/* This table's POSTs answer on it, or nobody. */
bool idem__stream_is_own(const idem__session_table *table, uint64_t stream);
/* Another process wants to know; on any thread. */
void idem__stream_asked(idem__session_table *table, const char *session, uint64_t stream);

typedef struct idem__get_stream {
  idem_list link; /* in endpoint->streams */
  idem__mcp_endpoint *endpoint;
  idem_http_exchange *exchange;
  idem__http_session *session;
  uint64_t stream;
  uint32_t after;
  uint64_t comment_ms;
  unsigned news;                 /* of its session's, when the log was last read */
  bool is_reading, again;        /* the log is being read; there was news meanwhile */
  idem__session_reading reading; /* of what its session has kept for it */
  idem__session_finding loading; /* of a session that is behind */
  bool doubtful;                 /* nobody seemed to answer on it when the log was last read */
  unsigned looks;                /* of its node at the others, then */
  bool asks;                     /* whether anybody does */
  bool over;                     /* nobody does: what comes to it is kept already */
  idem__stream_owner owner;
} idem__get_stream;
/* What is to be shown. */
typedef struct idem__get_stream_place {
  idem__http_session *session; /* its count is the stream's from now on */
  uint64_t stream;
  uint32_t after;
  bool over; /* all that comes to it is kept already */
} idem__get_stream_place;
void idem__get_stream_open(idem__mcp_endpoint *endpoint, idem_http_exchange *exchange,
                           const idem__get_stream_place *place);
/* Sends what its session has kept for it. */
void idem__get_stream_flush(idem__get_stream *stream);
void idem__get_streams_flush(idem__mcp_endpoint *endpoint);
/* Each message nobody asked for goes to one stream of a session, on whichever loop: the newest. */
bool idem__get_stream_tells(idem__get_stream *stream);

#endif
