/* feed.h - what happens in the server, for the operator's page: messages, log lines, metrics, as lines of a recording.
 * Nothing is recorded while nobody reads, but for the last warnings and an hour of samples. See docs/internals/page.md. */
#ifndef IDEM_CLI_FEED_H
#define IDEM_CLI_FEED_H

#include "samples.h"

#include <uv.h>

typedef struct feed_reader feed_reader;

typedef struct feed {
  idem_log *log;
  uv_loop_t *loop; /* NULL: it does not run yet */
  uv_async_t news;
  uv_mutex_t lock;  /* of the two that any thread writes */
  idem_buf told;    /* log lines that the loop has not seen */
  uint64_t untold;  /* lines that had no room there */
  idem_buf history; /* the last of them, as records */
  size_t forgotten; /* bytes that were in it */
  idem_buf pending; /* records of this turn, for every reader */
  size_t pending_count;
  uint64_t lost;    /* records of this turn that had no room */
  idem_buf scratch; /* of the message being recorded */
  feed_reader *readers;
  samples samples;
} feed;

void feed_init(feed *self, idem_log *log, const program_host *programs);
/* The loop is there: from now on warnings and samples are kept. */
void feed_on_loop(feed *self, uv_loop_t *loop);
/* No loop runs any more. */
void feed_deinit(feed *self);

/* GET of the feed; user: the feed. */
void feed_serve(idem_http_exchange *exchange, const idem_http_request *request, void *user);

/* Where the history is now; and what warnings and errors since then say, as the strings of a JSON array, into an
 * empty buffer. */
size_t feed_mark(feed *self);
void feed_put_since(feed *self, size_t mark, idem_buf *out);

#endif
