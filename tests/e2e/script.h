/* script.h - an HTTP server of the test's making, on the test's own loop: it hands each request to
 * a function and sends the very bytes it is told, well-formed or not. */
#ifndef IDEM_TESTS_SCRIPT_H
#define IDEM_TESTS_SCRIPT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <uv.h>

typedef struct script script;
typedef struct script_conn script_conn;

/* One whole request, head and body, as text. Borrowed. */
typedef void (*script_fn)(script_conn *conn, const char *request, void *user);

/* Listens on a free port of 127.0.0.1. */
script *script_start(uv_loop_t *loop, script_fn on_request, void *user);
int script_port(const script *server);
/* Connections it has accepted, and those open now. */
int script_accepted(const script *server);
int script_open(const script *server);
/* Closes everything; freed when the loop has run. */
void script_stop(script *server);

void script_send(script_conn *conn, const char *text);
void script_send_bytes(script_conn *conn, const char *bytes, size_t len);
/* A whole answer: "200 OK", "Content-Type: ...\r\n" or "", body. */
void script_answer(script_conn *conn, const char *status, const char *headers, const char *body);
void script_close(script_conn *conn);
void script_reset(script_conn *conn);
/* How many requests came on this connection, this one included. */
int script_count(const script_conn *conn);
/* From now on what comes goes to the other end of a new connection to this port of 127.0.0.1, and
 * back. */
void script_tunnel(script_conn *conn, int port);
/* The same, with this request first. */
void script_relay(script_conn *conn, const char *request, int port);
/* Of what comes back it passes on so many events of a stream that hold this word, and then nothing. */
void script_relay_no_more(script_conn *conn, const char *word, int events);

/* The value of a header of a request, or "" (in a buffer that the next call reuses). */
const char *script_header(const char *request, const char *name);
const char *script_body(const char *request);

#endif
