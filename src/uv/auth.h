/* auth.h - an idem_auth, for its files: auth.c (making, the end, what programs ask), auth_drive.c (steps on the loop),
 * auth_refused.c (requests that wait for a token), auth_proof.c (keys that tokens are bound to). See docs/internals/auth.md. */
#ifndef IDEM_UV_AUTH_H
#define IDEM_UV_AUTH_H

#include "auth/auth.h"
#include "modules/jose/jose.h"
#include "runtime.h"

#include <idem/auth.h>
#include <idem/fetch.h>
#include <idem/mcp_client.h>

#define IDEM__AUTH_KEPT_BYTES 262144u

struct idem_auth {
  idem__runtime *runtime;
  idem_alloc alloc;
  idem_auth_opts opts; /* of its strings only those below are there */
  char *url, *ca_file, *proxy;
  idem__auth_flow *flow;
  idem__auth_challenge challenge; /* of the refusal that began it, with its status */
  int refused_status;
  const idem__jose_module *jose; /* NULL: there is no key */
  idem__jose_key *key;
  idem__jose_key *proof_key; /* that tokens are bound to (DPoP); NULL: not yet needed */
  char *proof_pem;
  idem_fetch *fetch; /* under way, or NULL */
  uv_timer_t timer;
  idem_mcp_refusal **waiting;
  size_t waiting_count, waiting_room;
  bool running; /* for those that wait, or to log out */
  bool first;   /* the refusal that began it was the first of its request */
  bool other;   /* so far only what `load` brought, or another nonce, was tried for it */
  bool loading, held;
  char *before;         /* the line as it was before `load` */
  char load_fault[256]; /* "": none */
  void (*on_left)(idem_auth *auth, bool revoked, void *user);
  bool driving, again;
  bool shown;    /* the person was told */
  bool unsafe;   /* random numbers cannot be had */
  bool closing;  /* freed when the timer has closed */
  bool anywhere; /* private addresses are asked, too */
  bool refused_address;
  char reason[256]; /* why the last fetch came to nothing */
  char why[768];
  idem_buf line;
};

void idem__auth_wipe(char *text, size_t len);
/* Loads the module for keys; NULL: there is none (logged). */
const idem__jose_module *idem__auth_jose(idem_auth *auth);
/* Hooks of the flow: proofs of possession (auth_proof.c). */
idem_status idem__auth_prove(const char *claims, size_t len, idem_buf *out, void *user);
idem_status idem__auth_put_key(idem_buf *out, void *user);
idem_status idem__auth_take_key(const char *pem, size_t len, void *user);
void idem__auth_forget_key(idem_auth *auth);
/* The line of the token that the flow has; false: there is none, or no memory. */
bool idem__auth_put_line(idem_auth *auth);

/* Does what the flow wants until it has to wait for something. What happens inside a function of the program's is
 * taken up when that has returned. */
void idem__auth_drive(idem_auth *auth);
/* The two ends: those that wait are sent again, or given up with a sentence. */
void idem__auth_be_done(idem_auth *auth);
void idem__auth_give_up(idem_auth *auth, const char *why);

/* All that wait are sent again with this line; NULL: given up. */
void idem__auth_end_waiting(idem_auth *auth, const char *line);

#endif
