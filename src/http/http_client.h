/* http_client.h - a JSON-RPC peer behind HTTP, seen from the asking side, without I/O.
 * Every message of a conn is a POST of its own; what comes back, as JSON or as an event stream, is
 * fed to the conn; a stream that breaks is taken up again where it was. A post is one message on its
 * way, until nothing more is to come of it. See docs/internals/http.md. */
#ifndef IDEM_HTTP_CLIENT_H
#define IDEM_HTTP_CLIENT_H

#include "http.h"

typedef struct idem__http_client idem__http_client;
typedef struct idem__http_post idem__http_post;

/* A request to make: the first one of a post, or one that takes its stream up again. */
typedef struct idem__http_ask {
  const char *body; /* a message to POST; NULL: GET */
  size_t len;
  const char *last_event_id; /* GET only; no line end in it */
} idem__http_ask;

/* How one ended. */
typedef struct idem__http_outcome {
  idem_status status; /* OK: an answer came, whatever its HTTP status */
  const char *why;    /* a sentence when not OK */
  int http_status;
  const char *type;        /* Content-Type, or NULL */
  const char *retry_after; /* Retry-After, or NULL */
  const char *body;        /* unless it was streamed */
  size_t len;
} idem__http_outcome;

typedef struct idem__http_client_opts {
  idem_conn *conn;     /* with whole framing; lent. Its output is taken here and nowhere else */
  size_t max_requests; /* calls under way at once; 0: 32. Other messages have as many beside them */
  uint64_t retry_ms;   /* before a stream is taken up again, unless it says when; 0: 1,000 */
  unsigned retries;    /* in a row without an event; 0: 5 */
  idem_log *log;
  const idem_alloc *alloc;
  /* Makes the request; then head, data and end of the post are called, never from inside. The ask
   * is lent. *handle is the caller's. */
  idem_status (*send)(void *user, idem__http_post *post, const idem__http_ask *ask, void **handle);
  /* Nothing more is to be said of it. */
  void (*cancel)(void *user, void *handle);
  /* Its answer is read on, or not for now. */
  void (*hold)(void *user, void *handle, bool held);
  void *user;
} idem__http_client_opts;

idem_status idem__http_client_new(const idem__http_client_opts *opts, idem__http_client **out);
/* Cancels what is under way; the conn is to be freed first or told otherwise. */
void idem__http_client_free(idem__http_client *client);

/* Takes the conn's output and sends what may be sent; ends what nobody waits for any more. Call it
 * after everything that may have changed the conn, and when the deadline comes; not inside a callback of
 * the conn. */
void idem__http_client_pump(idem__http_client *client, uint64_t now_ms);
uint64_t idem__http_client_deadline(const idem__http_client *client); /* UINT64_MAX: never */
/* Messages on their way. */
size_t idem__http_client_posts(const idem__http_client *client);

/* The head of an answer: true if its body is to be given to `data` as it comes. */
bool idem__http_post_head(idem__http_post *post, int http_status, const char *type);
/* False: it is of no use; end it. */
bool idem__http_post_data(idem__http_post *post, const char *data, size_t len);
/* Once for each ask. The post may be gone after it. */
void idem__http_post_end(idem__http_post *post, const idem__http_outcome *outcome, uint64_t now_ms);

#endif
