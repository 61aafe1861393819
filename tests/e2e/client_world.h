/* client_world.h - a client of idem_connect over HTTP on a loop of its own, two servers of the test's
 * making, and what became of the calls. */
#ifndef IDEM_TESTS_CLIENT_WORLD_H
#define IDEM_TESTS_CLIENT_WORLD_H

#include "script.h"

#include "support/unit.h"

#include <idem/uv.h>
#include <uv.h>

typedef struct answer {
  int times;
  idem_status status;
  int64_t code;
  char message[256], result[256], data[256];
} answer;

typedef struct world {
  uv_loop_t loop;
  uv_timer_t ticker; /* a turn of the loop never blocks for long */
  script *server, *other;
  idem_router *router;
  char url[64], elsewhere[64];
  idem_conn *conn;
  idem_status ready;
  int readies, closed, protocol_errors;
  char requests[16][2048];
  int asked;
  uint64_t idle_ms; /* of the policy; 0: the usual */
  script_conn *kept[8];
  int keeps;
} world;

/* `on_request` serves both. */
void set_up(world *in, script_fn on_request);
void tear_down(world *in);
/* With its handshake; a message of the server's has at most 4,096 bytes. */
void connect_to(world *in, const char *url, const idem_client_opts *client);
void close_conn(world *in);
void on_ready(idem_conn *conn, idem_status status, void *user);

/* Fills an answer. */
void on_response(idem_conn *conn, const idem_response *response, void *user);
/* Params: [1], or as given. */
void call(world *in, const char *method, answer *to);
void call_with(world *in, const char *method, const char *params, answer *to);
void wait_for(world *in, const answer *to);
answer ask(world *in, const char *method);

/* A member of the message that a request carries, as JSON text; "" where there is none. */
void member(const char *request, const char *name, char *value, size_t size);

#endif
