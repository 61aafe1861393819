/* login.h - who asks, where a server wants to know: tokens that are kept, refreshed, or got in a browser.
 * Joins an idem_auth with the file of tokens, the page on 127.0.0.1 and the person at the terminal. */
#ifndef IDEM_CLI_CALL_LOGIN_H
#define IDEM_CLI_CALL_LOGIN_H

#include "call.h"
#include "callback.h"
#include "paste.h"
#include "secret.h"
#include "target.h"
#include "token_store.h"

#include <idem/auth.h>
#include <idem/http.h>
#include <idem/mcp_client.h>
#include <uv.h>

typedef struct call_login {
  const call_options *options;
  call_target *target;
  uv_loop_t *loop;
  idem_log *log;
  call_client client;
  token_store store;
  idem_auth *auth; /* NULL: there is nothing to show who asks with */
  callback *back;
  paste *pasted;
  char *page;         /* that the person was sent to; NULL: none was */
  text seen;          /* what was kept when it was last looked at */
  uv_timer_t waiting; /* for the lock */
  uint64_t wait_until;
  bool opened, closed;
  bool knocking;        /* what is refused now asked merely what it takes */
  bool over;            /* the token was got or not; nobody is waited for */
  bool hopeless;        /* what was got is refused as well */
  bool warned;          /* that nothing can be kept */
  bool unclear;         /* which client's tokens are meant */
  bool borrowed;        /* without --client: those of the only client that --client named before */
  char challenge[1024]; /* of the last refusal */
} call_login;

/* False: stderr has said why, and the exit status is 2. Close it either way. */
bool login_open(call_login *self, const call_options *options, call_target *target, uv_loop_t *loop,
                idem_log *log);
/* What a client needs for it; `login_of` finds it from the options' user. */
void login_declare(call_login *self, idem_mcp_client_opts *opts, idem_client_opts *wire);
call_login *login_of(void *user); /* who declares provides it */
/* The token becomes one of the target's headers, for who makes connections of their own. */
void login_lend(call_login *self);
/* The call went well: says so where nobody had to log in for it. */
void login_note(const call_login *self);
/* What to type to log in where the token that is kept is not good: "--login", or with the client that it is of. */
void login_flags(const call_login *self, char *out, size_t size);
/* Nobody is waited for any more; may be called again. */
void login_close(call_login *self);
/* Why no token was to be had; "": nobody knows. */
const char *login_why(const call_login *self);

/* --whoami and --logout: exit statuses. */
int login_whoami(const call_options *options);
int login_out(const call_options *options);

#endif
