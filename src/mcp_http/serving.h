/* serving.h - what MCP keeps with each POST while the engine answers it, for the files of this folder that have a part in
 * that: serving.c (its opinions), siblings.c (other POSTs of the session), serving_stream.c (its events). */
#ifndef IDEM_MCP_HTTP_SERVING_H
#define IDEM_MCP_HTTP_SERVING_H

#include "mcp_http.h"

/* What MCP keeps with each idem__mcp_serving. */
typedef struct idem__mcp_serving {
  idem__mcp_peer peer;
  idem__mcp_endpoint *endpoint;
  const idem_http_request *request; /* while the message is being taken in */
  struct idem__mcp_left *left; /* of it, for elements of a batch in other turns; NULL: nothing */
  idem__http_session *session; /* counted; NULL: none */
  idem__session_post post;
  idem__session_finding finding;
  idem__session_opening *opening;
  idem__edge_done opened; /* whom to tell then */
  void *opened_user;
  struct unconfirmed *unconfirmed; /* changes of the session; NULL: all are */
  idem__session_event event;       /* being kept, or the stream being numbered */
  const char *text;                /* the event's, lent */
  size_t text_len;
  char *long_principal; /* one that does not fit; NULL: it does */
  char *needed_scopes;  /* that its token lacks; NULL: none */
  char principal[2 * IDEM_SHA256_BYTES + 1];
  uint16_t status;
  bool new_session; /* its id goes into the answer's head */
  bool has_session_header;
  bool modern;      /* its header says so, as it must */
  bool bad_version; /* its header names a revision that is not served */
  bool replayed;    /* its answer was given before: see once.h of src/mcp_server */
  bool owner_gone;  /* the process that asked what it answers has ended */
  bool numbered;    /* an event that its client can come back after was sent */
  bool answered;    /* its stream's last event is kept, or goes out without a number */
  bool cancelled;   /* by its client: nothing will be answered */
  bool faulty;      /* what it answers is no message's: the store has nothing to do with it */
  bool unavailable; /* nobody can say whether it is a session */
} idem__mcp_serving;

/* siblings.c: answers to our questions and cancellations find the POST they are meant for, on whichever thread. */
extern const idem__conn_siblings idem__mcp_siblings;

/* carry.c: to other processes of the same store. */
typedef enum idem__carry_end {
  IDEM__CARRY_NOBODY, /* it is nobody else's */
  IDEM__CARRY_SENT,
  IDEM__CARRY_NO_ROOM
} idem__carry_end;
idem__carry_end idem__carry_response(idem__mcp_serving *serving, const idem__message *message);
void idem__carry_cancel(idem__mcp_serving *serving, const idem__id *id);
/* serving.c: a message that is not answered is acknowledged when what comes of it is known to be kept. NULL: no memory,
 * and it is refused; else `confirmed` gets this, once. NOTFOUND: whom it was for has ended. */
void *idem__serving_await(idem__mcp_serving *serving);
void idem__serving_confirmed(const idem__store_answer *answer, void *user);
/* siblings.c, for it: an answer as text; what came from another process. On any thread. */
idem_status idem__carry_write(idem_buf *out, const idem__message *message);
/* NOTFOUND: nobody here waits for it; NOMEM: it was not given to who does. */
idem_status idem__carried_answer(idem__http_session *session, uint64_t id, const char *text,
                                 size_t len);
void idem__carried_cancel(idem__http_session *session, const idem__id *id);

/* serving_stream.c: see idem__http_protocol. */
idem__http_when idem__mcp_stream_begin(void *at, idem_buf *out);
idem__http_when idem__mcp_stream_event(void *at, const char *text, size_t len, bool last,
                                       idem_buf *out);
bool idem__mcp_serving_outlives(void *at);
/* It has left its session; who has taken its stream up looks whether it has ended. */
void idem__mcp_stream_left(idem__mcp_serving *serving);
void idem__mcp_serving_detached(void *at, bool detached);
bool idem__mcp_serving_orphaned(void *at);
/* The answer may be fetched later; the stream that waits for it is closed. */
/* False: its client could not come back for what follows. */
bool idem__mcp_serving_leave_stream(idem__mcp_serving *serving);

#endif
