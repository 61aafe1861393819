/* input.h - questions to the client: what was answered, what is asked, and the state that travels with
 * them, sealed. */
#ifndef IDEM_MCP_INPUT_H
#define IDEM_MCP_INPUT_H

#include "nouns.h"

/* Reads inputResponses and requestState of a request; false: refused. */
bool idem__input_read(idem__context *context, yyjson_val *params);
/* A question or notification of this request has a way to the client: always on a line; over HTTP its
 * Accept lets one be an event stream, or one was begun that can be taken up again. */
bool idem__can_reach(const idem__context *context);
/* Are these addresses that the client can be sent to? `answered`: no, and the request is. */
idem_status idem__input_check_urls(idem__context *context, const idem_ask *asks, size_t count,
                                   bool *answered);
/* The refusal where there is none, with a hint. */
idem_status idem__refuse_streamless(idem__context *context);
/* input_round.c: asks a peer of before 2026-07-28 and runs the handler again with what it says. */
idem_status idem__input_ask(idem__context *context, const idem_ask *asks, size_t count,
                            const void *state, size_t state_len);
/* Takes back what a legacy peer was asked and has not answered. A task's side is in task.h. */
void idem__input_cancel(idem__context *context);
/* Copies what the handler wants to see again into the request's memory; NULL: nothing. */
idem_status idem__input_keep_state(idem__context *context, const void *state, size_t len);
/* A text that is kept with the request, parsed; NULL: none, or the status says that it is none. */
yyjson_val *idem__input_parse(idem__context *context, const idem_buf *text, idem_status status);
/* Derives the server's keys for what travels from its options, or makes a random one. */
idem_status idem__state_keys(idem_server *server);
/* Bytes of a state that a handler may keep, and of what is sealed with it. */
#define IDEM__STATE_MAX ((size_t)65536)
#define IDEM__SEALED_MAX ((size_t)262144)
/* requestState, sealed with HMAC-SHA-256: expiry, principal, method, digest of the params. */
idem_status idem__state_seal(idem__context *context, const void *state, size_t len, idem_buf *out);
/* INVAL: tampered with, expired, somebody else's or another request's. The state is in `out`. */
idem_status idem__state_open(idem__context *context, const char *text, size_t len, idem_buf *out);

#endif
