/* auth_world.h - a server that is its own authorization server, in the ways in which such servers behave and misbehave, and an MCP client
 * that is refused there; the browser is a function. */
#ifndef IDEM_TESTS_AUTH_WORLD_H
#define IDEM_TESTS_AUTH_WORLD_H

#include "script.h"

#include "support/unit.h"

#include <idem/auth.h>
#include <idem/mcp_client.h>
#include <idem/uv.h>

typedef enum browser { HONEST, OTHER_STATE, OTHER_ISSUER, REFUSES, LEAVES, FREES } browser;

typedef struct world {
  uv_loop_t loop;
  uv_timer_t ticker; /* a turn of the loop never blocks for long */
  script *server, *other;
  char url[64], mcp[80], elsewhere[64];
  idem_mcp_client *client;
  idem_auth *auth;
  bool ready, closed;
  idem_log *log; /* of the client; NULL: none */
  /* The server. */
  int registered, tokens, refreshed, revoked, found, posts, strangers;
  int good;          /* the number of the token that is good */
  const char *scope; /* that tools/call wants beside; NULL: none */
  /* How metadata and tokens are answered: "", "redirect", "endless", "foreign", "missing" (/prm), "token-redirect" and
   * "token-endless". */
  const char *metadata;
  const char *challenged; /* where the challenge says that metadata are; NULL: /prm */
  bool no_refresh;
  char token_form[2048];
  /* The person. */
  browser browser;
  int visits;
  char page[4096];
  /* What came of it. */
  int ended, fine, http_status, held, left;
  char kept[4096];
  int saves;
} world;

void world_set_up(world *in);
/* With the options that every test has; the URL is the server's if none is given. */
void world_make_auth(world *in, idem_auth_opts opts);
void world_connect(world *in, const char *header);
/* All three, with the person at the browser. */
void world_begin(world *in);
void world_tear_down(world *in);

/* Calls a tool so often at once, and waits for the ends. */
void world_call(world *in, int times);
/* A call that is given up, for a reason that has these words in it. */
void world_call_in_vain(world *in, const char *words);

/* Functions of the auth and the client. */
void world_on_page(idem_auth *auth, const char *page, const char *user_code, void *user);
/* From the page that was shown, with all that is wanted. */
void world_come_back(const world *in);
void world_save(idem_auth *auth, const char *kept, size_t len, void *user);
void world_on_refused(idem_mcp_client *client, idem_mcp_refusal *refusal, void *user);
void world_on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user);

#endif
