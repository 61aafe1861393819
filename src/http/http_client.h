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
  const char *method; /* "POST", "GET", "DELETE" */
  const char *url;    /* NULL: the client's own */
  const char *body;   /* of a POST */
  size_t len;
  bool may_repeat;    /* it changes nothing: once more, should a kept connection break under it */
  const char *accept; /* what the answer may be; NULL: anything */
  const char *last_event_id; /* of a GET; NULL: none; no line end in it */
  const char *lines;         /* more headers, each ended by a NUL */
  size_t lines_len;
  bool standing; /* a stream that may well be silent for an hour */
} idem__http_ask;

/* How one ended. */
typedef struct idem__http_outcome {
  idem_status status; /* OK: an answer came, whatever its HTTP status */
  const char *why;    /* a sentence when not OK */
  int http_status;
  bool resumes;     /* of a request that takes a stream up again: it says nothing of the message */
  const char *type; /* Content-Type, or NULL */
  const char *retry_after; /* Retry-After, or NULL */
  const char *body;        /* unless it was streamed */
  size_t len;
  /* The index-th header of a name; NULL: there are no more. The function may be NULL. */
  const char *(*header)(const void *answer, const char *name, size_t index);
  const void *answer;
} idem__http_outcome;

/* A Retry-After in seconds, as servers mostly write it, or the time from the answer's Date to the one it names; -1: neither. */
long idem__http_retry_seconds(const idem__http_outcome *outcome);

typedef enum idem__http_verdict {
  IDEM__HTTP_GO,   /* it is sent; a refusal stands */
  IDEM__HTTP_WAIT, /* not yet: until idem__http_client_release, or idem__http_post_again */
  IDEM__HTTP_DROP, /* not at all */
  IDEM__HTTP_AGAIN /* a refused one is sent once more, now */
} idem__http_verdict;

/* What a protocol on top has to say about its requests. All may be NULL. `what` is the message of a post; NULL: it
 * has none, but is a stream or a goodbye. */
typedef struct idem__http_hooks {
  void (*start)(void *user, idem__http_client *client);
  /* May it be sent, and where; more headers for it. */
  idem__http_verdict (*may_send)(void *user, idem__http_post *post, const idem_outgoing *what);
  idem_status (*prepare)(void *user, const idem_outgoing *what, idem__http_ask *ask,
                         idem_buf *lines);
  /* The head of its answer: status, headers; no body yet. */
  void (*head)(void *user, const idem_outgoing *what, const idem__http_outcome *outcome);
  /* The answer is a refusal (4xx, 5xx). */
  idem__http_verdict (*refused)(void *user, idem__http_post *post, const idem_outgoing *what,
                                const idem__http_outcome *outcome);
  /* Nothing more comes of it. */
  void (*gone)(void *user, idem__http_post *post);
  /* There was no memory for its post: it is not sent. Its call has ended. */
  void (*dropped)(void *user, const idem_outgoing *what);
  /* An event that is no message; an event of a stream that has none of its own. */
  void (*event)(void *user, const idem__sse_event *event);
  /* The standing stream is over for good. */
  void (*stream_lost)(void *user, const idem__http_outcome *outcome);
  /* The conn has said all it had: the last moment to say goodbye. */
  void (*finish)(void *user);
  /* A request as it goes out, for who watches. */
  void (*sent)(void *user, const char *method, const char *url, const char *const *headers);
} idem__http_hooks;

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
  const idem__http_hooks *hooks; /* NULL: none */
  void *hooks_user;
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

/* For a protocol on top. Who goes away has cancelled: a request nobody waits for is cut off at once, and a stream that has
 * ended is not taken up again. */
void idem__http_client_cut(idem__http_client *client);
/* Answers come by the standing stream: the end of a POST ends no call. */
void idem__http_client_elsewhere(idem__http_client *client);
/* Opens the standing stream, which is taken up again whenever it breaks. `needed`: without it nothing works. NOMEM,
 * EXISTS. */
idem_status idem__http_client_stream(idem__http_client *client, bool needed);
/* A DELETE, whose answer nobody looks at. */
idem_status idem__http_client_goodbye(idem__http_client *client);
/* What waits is looked at again. */
void idem__http_client_release(idem__http_client *client);
/* One that was refused and waits is sent again, or its refusal stands. */
void idem__http_post_again(idem__http_post *post);
/* How often it was refused so far. */
unsigned idem__http_post_refusals(const idem__http_post *post);
/* Requests of a client are counted from 1: which one its last was, and how many there were so far. */
uint64_t idem__http_post_turn(const idem__http_post *post);
uint64_t idem__http_client_turns(const idem__http_client *client);
void idem__http_post_give_up(idem__http_post *post, const idem__http_outcome *outcome);

/* The head of an answer: true if its body is to be given to `data` as it comes. */
bool idem__http_post_head(idem__http_post *post, const idem__http_outcome *head);
/* False: it is of no use; end it. */
bool idem__http_post_data(idem__http_post *post, const char *data, size_t len);
/* Once for each ask. The post may be gone after it. */
void idem__http_post_end(idem__http_post *post, const idem__http_outcome *outcome, uint64_t now_ms);

#endif
