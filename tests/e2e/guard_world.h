/* guard_world.h - a server whose callers show tokens, the issuer of those (a script), and a caller: all on one loop. */
#ifndef IDEM_TESTS_GUARD_WORLD_H
#define IDEM_TESTS_GUARD_WORLD_H

#include "jwt.h"
#include "script.h"

#include "uv/guard.h"

#include <idem/fetch.h>
#include <idem/mcp.h>
#include <idem/uv.h>

#define TOKEN 24576

typedef struct world {
  uv_loop_t loop;
  script *issuer;
  char issuer_url[64], url[96], jwks_path[64];
  idem_server *server;
  idem_listener *listener;
  jwt_key keys[4]; /* that are published now */
  size_t key_count;
  /* What the issuer does. */
  int metadata, jwks, introspections, strangers;
  const char *
      manner; /* of its keys: "", "many", "huge", "endless", "500", "redirect", "silent", "elsewhere" */
  char last_form[4096], last_authorization[256];
  const char *introspection; /* what it says of opaque tokens */
  script_conn *held;
  idem_log *log; /* of the listener; NULL: none. open_log makes one */
  char logged[4096];
  const idem_alloc *alloc; /* of the listener; NULL: the usual one */
  const char *proofs[2];   /* DPoP headers of what is sent next; NULL: none */
  const char *again;       /* a second Authorization header of what is sent next; NULL: none */
  const char *client;      /* whom a proxy names as the caller of what is sent next; NULL: nobody */
  /* What came of a request. */
  bool stopped;
} world;

typedef struct outcome {
  bool began; /* its head has come */
  world *in;
  int status; /* HTTP's; -1: it has not come; 0: none will */
  char challenge[4096], body[4096], nonce[64];
} outcome;

void open_issuer(world *in);
/* Says of the token that was asked about last, while the issuer was silent, what it says of all. */
void answer_held(world *in);
/* Before open_server: warnings go to in->logged. */
void open_log(world *in);
void open_server(world *in, const idem_http_auth *auth, idem_http_opts http);
/* The same with tokens of the issuer alone. */
void trust_issuer(world *in, idem_http_opts http);
/* Publishes one more. */
void add_key(world *in, const char *id, const char *algorithm);
/* An issuer with the key k1 (ES256), and a server with the tool `who`. */
void open_world(world *in);
/* The same with three loops. */
void open_several(world *in);
void close_world(world *in);
/* One more listener for the same server; to be stopped, and waited for until *stopped, before the world is closed. */
idem_listener *open_another(world *in, const idem_http_auth *auth);
void stop_another(idem_listener *listener, bool *stopped);

/* A body, with the headers of MCP that go with it ("" for none); `authorization` may be NULL. */
idem_fetch *send_body(world *in, const char *authorization, const char *method, const char *name,
                      const char *body, outcome *out);
/* tools/call of `who`. */
idem_fetch *send_call(world *in, const char *authorization, outcome *out);
void wait_for(world *in, const outcome *out);
void call_with(world *in, const char *token, outcome *out);
int status_of(world *in, const char *token);
/* It gets 401, since the token is no good. */
void expect_bad_token(world *in, const char *what, const char *token);
void on_answer(const idem_fetch_answer *answer, void *user);
/* Claims that are fine, and a token with them; in a buffer that the next call reuses. */
const char *claims_of(const world *in, const char *more);
const char *token_of(const world *in, const jwt_key *key, const char *more);

#endif
