/* web.h - transcripts over HTTP and WebSocket: what a message looks like there, and back. */
#ifndef IDEM_TEST_WEB_H
#define IDEM_TEST_WEB_H

#include "support/transcript.h"

/* Can the scenario be told in messages alone, each of which the transport can carry? */
bool web_can_carry(const scenario *scene, bool websocket);

/* One message as a POST; freed by the caller. */
char *web_post(const step *one, size_t *len);
/* The first whole answer in what came; false: not there yet. */
typedef struct web_answer {
  int status;
  size_t start, len; /* of the body */
  size_t used;       /* head and body */
} web_answer;
bool web_find_answer(const char *data, size_t len, web_answer *out);
/* The status that such a body must have; empty: a notification's. */
int web_status_of(const char *body, size_t len);

extern const char web_socket_hello[];
/* A masked frame of the given kind (1: text, 8: close); freed by the caller. */
char *web_frame(int kind, const char *text, size_t text_len, size_t *len);
typedef struct web_frame_seen {
  int kind;
  size_t start, len, used;
} web_frame_seen;
bool web_find_frame(const char *data, size_t len, web_frame_seen *out);

#endif
