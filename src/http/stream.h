/* stream.h - event streams and WebSocket, as text and frames alone. See docs/internals/http.md. */
#ifndef IDEM_HTTP_STREAM_H
#define IDEM_HTTP_STREAM_H

#include "view.h"

#include <idem/http.h>

typedef struct idem__websocket idem__websocket;
typedef struct idem__http_refusal idem__http_refusal;

/* ---------------------------------------------------------- event streams */

/* Appends one event: an optional name and id, then the text as data lines, whatever line ends it
 * holds. */
idem_status idem__sse_put_event(idem_buf *out, const char *event, const char *id, const char *data,
                                size_t len);
#define IDEM__SSE_COMMENT ":\n\n"

/* The client's side: cuts a stream into events at any split of the input, within `max` bytes each,
 * and keeps what a reconnection needs. */
typedef struct idem__sse_event {
  idem__view event; /* "message" unless the stream said otherwise */
  idem__view data;
  idem__view id; /* the last id seen on the stream, not only on this event */
} idem__sse_event;
typedef struct idem__sse_parser {
  idem_buf line, data, event, id, last_id; /* `id` takes effect at the end of its event */
  size_t max;
  uint64_t retry_ms; /* as the stream asked; 0: it did not */
  uint8_t bom;       /* bytes of a leading byte order mark seen; 3: past the beginning */
  bool after_cr, has_data, failed;
  void (*on_event)(void *user, const idem__sse_event *event);
  void *user;
} idem__sse_parser;
void idem__sse_parser_init(idem__sse_parser *parser, const idem_alloc *alloc, size_t max,
                           void (*on_event)(void *user, const idem__sse_event *event), void *user);
void idem__sse_parser_deinit(idem__sse_parser *parser);
/* LIMIT: an event larger than max. NOMEM. Both are final. */
idem_status idem__sse_parser_feed(idem__sse_parser *parser, const char *data, size_t len);
/* The stream broke: forgets the half event, keeps last_id and retry_ms for the next one. */
void idem__sse_parser_restart(idem__sse_parser *parser);

/* -------------------------------------------------------------- WebSocket */

#define IDEM__SHA1_BYTES 20
void idem__sha1(const void *data, size_t len, uint8_t digest[IDEM__SHA1_BYTES]);

#define IDEM__WEBSOCKET_ACCEPT 28
/* The Sec-WebSocket-Accept that answers a key. */
void idem__websocket_accept(idem__view key, char accept[IDEM__WEBSOCKET_ACCEPT]);
/* Is this request a WebSocket handshake at all? */
bool idem__websocket_asked(const idem_http_request *request);
/* Is it a good one? Fills the refusal otherwise (426 for another version). */
void idem__websocket_check(const idem_http_request *request, idem__http_refusal *refusal);

typedef struct idem__websocket_opts {
  bool client;          /* masks what it sends */
  size_t message_bytes; /* 0: 10,485,760 */
  /* One whole text message. `text` is borrowed and valid UTF-8. */
  void (*on_message)(idem__websocket *socket, const char *text, size_t len, void *user);
  /* Asked before that. True: it waits, with all that comes behind it, until idem__websocket_go_on. NULL: it never does. */
  bool (*must_wait)(void *user);
  /* Asked after that. True: what it began goes on in other turns; nothing behind it is looked at until go_on. */
  bool (*must_halt)(void *user);
  /* The close handshake has been seen, or the peer broke the protocol: once. */
  void (*on_close)(idem__websocket *socket, uint16_t code, void *user);
  /* Takes bytes for the wire. */
  idem_status (*output)(void *user, const char *data, size_t len);
  void (*on_free)(void *user);
  void (*random)(void *ctx, uint8_t *bytes, size_t len); /* client: masks */
  void *random_ctx;
  void *user;
  const idem_alloc *alloc;
} idem__websocket_opts;
idem_status idem__websocket_new(const idem__websocket_opts *opts, idem__websocket **out);
void idem__websocket_free(idem__websocket *socket);
idem_status idem__websocket_feed(idem__websocket *socket, const char *data, size_t len);
/* The message that waits, and what came behind it, as far as it may go. */
idem_status idem__websocket_go_on(idem__websocket *socket);
idem_status idem__websocket_send(idem__websocket *socket, const char *text, size_t len);
idem_status idem__websocket_ping(idem__websocket *socket);
/* Starts or answers the close handshake; 1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011, 1012, 1013. */
void idem__websocket_close(idem__websocket *socket, uint16_t code, const char *reason);
/* By when the message or frame that has begun must be whole, which is to be asked after each feed:
 * limit_ms, and longer for one that comes fast enough, up to most_ms. UINT64_MAX: none has begun. */
uint64_t idem__websocket_due(idem__websocket *socket, uint64_t now_ms, uint64_t limit_ms,
                             uint64_t most_ms);
/* The memory that a message takes whose end has not come. */
size_t idem__websocket_unfinished(const idem__websocket *socket);
#define IDEM__BYTES_PER_MS 16 /* what comes this fast may take longer than its limit */
/* How long what has brought so many bytes may take. */
static inline uint64_t idem__time_to_arrive(uint64_t limit_ms, uint64_t most_ms, size_t bytes) {
  uint64_t earned = limit_ms + bytes / IDEM__BYTES_PER_MS;
  return earned < most_ms ? earned : most_ms;
}
/* Both sides have closed, or the peer broke the protocol and was told: end the connection. */
bool idem__websocket_finished(const idem__websocket *socket);
bool idem__websocket_closing(const idem__websocket *socket);

#endif
