/* http_post.h - the inside of a client and of its posts, for the two files that have a part in them: http_client.c (what goes
 * out, and looking after it) and http_answer.c (what comes back). */
#ifndef IDEM_HTTP_POST_H
#define IDEM_HTTP_POST_H

#include "http_client.h"

/* What a post is for. */
typedef enum idem__http_post_kind { POST_MESSAGE, POST_STREAM, POST_GOODBYE } idem__http_post_kind;

struct idem__http_post {
  idem__http_client *client;
  idem_list link; /* in queue or posts */
  idem__http_post_kind kind;
  idem_chunk chunk;   /* owner NULL: the server has it, or there is none */
  idem_outgoing what; /* of the chunk */
  uint64_t call;      /* whose answer is expected; 0: none is */
  void *handle;       /* of the request under way */
  bool asking;        /* there is one */
  bool streaming;     /* its answer is an event stream */
  bool resumed;       /* it is a GET */
  bool held;          /* and not read for now */
  bool over;          /* nobody waits for it */
  bool parked;        /* it was refused, and waits to be sent again or given up */
  bool opened;        /* a stream that was there once */
  unsigned refusals;
  uint64_t turn;      /* which of the client's requests its last one was */
  bool parsing;       /* the parser has been made */
  uint64_t at_ms;     /* asking: when it is cut off if `over`; else when the stream is resumed */
  unsigned tries;     /* in a row without an event */
  idem_status broken; /* why we ended the stream */
  idem__sse_parser parser;
};

struct idem__http_client {
  idem__http_client_opts opts;
  idem_alloc alloc;
  idem_list queue; /* not yet sent */
  idem_list posts;
  size_t calls, others; /* of `posts` */
  size_t count;         /* of both */
  uint64_t deadline_ms;
  uint64_t turns; /* requests made so far */
  bool cuts, elsewhere, finished, needs_stream;
  idem__http_post *stream; /* the standing one; NULL: none */
};

static inline const idem_outgoing *idem__http_post_what(const idem__http_post *post) {
  return post->kind == POST_MESSAGE ? &post->what : NULL;
}

static inline const idem__http_hooks *idem__http_hooks_of(const idem__http_client *client) {
  static const idem__http_hooks none;
  return client->opts.hooks ? client->opts.hooks : &none;
}

/* http_client.c */
/* Nothing more comes of it. */
void idem__http_post_close(idem__http_post *post);
/* Ends its call, or says in the log that a message was lost. */
void idem__http_post_fail(idem__http_post *post, idem_status status, const char *why);
/* Its message, once more. False: it cannot be sent, and its call has ended. */
bool idem__http_post_send(idem__http_post *post);
/* Whether its stream can be taken up again, and when. */
bool idem__http_post_resumable(const idem__http_post *post);
void idem__http_post_rest(idem__http_post *post, uint64_t now_ms);

/* http_answer.c */
bool idem__http_post_pending(const idem__http_post *post);
/* Ends its call by what an HTTP error says. */
void idem__http_post_fail_http(idem__http_post *post, const idem__http_outcome *outcome);

#endif
