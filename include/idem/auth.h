/* idem/auth.h - how an MCP client comes to a token when a server wants one: OAuth 2.1 as MCP has it, on libuv.
 *
 * A refused request (401, 403) is given to the auth; it finds out who gives tokens for that server, gets one
 * in the way that the options name, and has the request sent again with it. Requests that are refused meanwhile
 * wait together. Where a person is needed, a function of yours is told which page to open.
 *
 *   static void on_refused(idem_mcp_client *client, idem_mcp_refusal *refusal, void *user) {
 *     idem_auth_refused(user, refusal);
 *   }
 *   idem_auth_opts opts = {.url = url, .redirect_uri = "http://127.0.0.1:8123/", .on_page = show};
 *   status = idem_auth_new(loop, &opts, &auth);
 *
 * Nothing that servers say is believed beyond what it is about: metadata of another resource or issuer, an answer
 * of the browser with another state or issuer, pages that are neither https nor loopback end it, with a sentence
 * (idem_auth_why). Redirects to another origin are not followed, a body has 1 MiB at most, an answer 30 seconds.
 * Everything happens on the loop's thread; HTTP is asked by the module for libcurl. See docs/guide/auth.md. */
#ifndef IDEM_AUTH_H
#define IDEM_AUTH_H

#include <idem/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* libuv's loop, see uv.h; and a request that was refused, see mcp_client.h. */
typedef struct uv_loop_s uv_loop_t;
typedef struct idem_mcp_refusal idem_mcp_refusal;
typedef struct idem_mcp_sending idem_mcp_sending;   /* one that is about to be sent */
typedef struct idem_mcp_answered idem_mcp_answered; /* one that is answered */

typedef struct idem_auth idem_auth;

typedef enum idem_auth_grant {
  IDEM_AUTH_CODE = 0,               /* a person, in a browser, who comes back to redirect_uri */
  IDEM_AUTH_DEVICE = 1,             /* a person, in a browser on any machine, who types a code */
  IDEM_AUTH_CLIENT_CREDENTIALS = 2, /* the program itself, with its secret */
  IDEM_AUTH_JWT_BEARER = 3,         /* with `assertion`, by which somebody says who this is */
  IDEM_AUTH_ENTERPRISE = 4          /* with `assertion`, exchanged at idp_token_endpoint first */
} idem_auth_grant;

/* Zero means the default. Strings are copied. */
typedef struct idem_auth_opts {
  const char *url; /* the MCP server: the token is for it */
  idem_auth_grant grant;
  const char *client_id;     /* known to the authorization server beforehand */
  const char *client_secret; /* NULL: it has none */
  /* PEM, of P-256 or RSA: by its signature the client shows who it is, where the server takes that
   * (private_key_jwt). */
  const char *private_key;
  /* https URL of a document about this client, which is its id at servers that take such ids; at others it
   * registers. */
  const char *client_document;
  const char *client_name;  /* for registering; NULL: "idem" */
  const char *redirect_uri; /* CODE: required. Where you listen, or what the browser calls */
  const char *scope;        /* asked for beside what the server wants */
  bool refresh;             /* a refresh token is wanted, so that a person is asked less often */
  const char *assertion;    /* JWT_BEARER: a JWT. ENTERPRISE: the ID token of the user */
  const char
      *idp_token_endpoint; /* ENTERPRISE: the company's identity provider, and who we are there */
  const char *idp_client_id;
  const char *idp_client_secret; /* NULL: it has none there. Shown to nobody else */
  bool idp_secret_post;          /* in the form (client_secret_post), not as Basic */
  bool
      kept_only; /* only what was kept is used, and refreshed: no person is asked, nothing registered */
  bool
      strict_resource; /* no servers that do not say who gives tokens for them (before 2025-06-18) */
  bool
      private_addresses; /* authorization servers may be in a private network. By default only at the
                             server's own origin, or if `url` is loopback; a proxy counts by its address */
  uint64_t page_ms;      /* for the person to come back; 0: 600,000 */
  const char *ca_file;   /* PEM: whom to trust; NULL: the system's authorities */
  const char *proxy;     /* as in idem_client_opts */
  const char *kept;      /* what `save` was given in an earlier process; NULL: nothing */
  /* A person is to open this page: https, or http on loopback. `user_code` (DEVICE) is what they type there; else
   * NULL, and then idem_auth_redirected is owed. Open it without a shell. NULL: who needs a person is refused. */
  void (*on_page)(idem_auth *auth, const char *page, const char *user_code, void *user);
  /* Tokens are about to be asked for: the last moment to idem_auth_take what another process has got. Where several
   * share what is kept, take a lock here, and give it back in `on_page` or `save`, one of which always follows; if it
   * must be waited for, idem_auth_hold. */
  void (*load)(idem_auth *auth, void *user);
  /* What is worth keeping has changed: JSON with the tokens, as secret as they are. A client_secret of yours is not in it. */
  void (*save)(idem_auth *auth, const char *kept, size_t len, void *user);
  void *user;    /* of all these functions */
  idem_log *log; /* tokens are kept out of it */
  const idem_alloc *alloc;
} idem_auth_opts;

/* INVAL: no such URL, CODE without a redirect_uri, a key that cannot sign, `kept` that is not what was saved. SYS: no
 * random numbers, or no module for keys (logged). NOMEM. */
IDEM_API idem_status idem_auth_new(uv_loop_t *loop, const idem_auth_opts *opts, idem_auth **out);
/* Gives up every request that waits. Allowed in functions of its own. Takes NULL. */
IDEM_API void idem_auth_free(idem_auth *auth);

/* Call it from on_refused and nothing else: keeps the refusal, and has it sent again or gives it up. */
IDEM_API void idem_auth_refused(idem_auth *auth, idem_mcp_refusal *refusal);
/* Call it from on_sending and nothing else: where a token is bound to a key (DPoP), a proof goes with each request. Without it such
 * servers refuse. */
IDEM_API void idem_auth_sending(idem_auth *auth, idem_mcp_sending *sending);
/* Call it from on_answered and nothing else: an answer may bring the nonce that the next proof must have (RFC 9449, 8.2). Without it
 * such servers refuse every request once when theirs has changed. */
IDEM_API void idem_auth_answered(idem_auth *auth, const idem_mcp_answered *answered);
/* The browser came back with this query ("code=...&state=..."), or with none. STATE: nobody waits for it. */
IDEM_API idem_status idem_auth_redirected(idem_auth *auth, const char *query, size_t len);
/* Puts back what `save` was given, here or in another process. INVAL: it is not that, or of another URL, and nothing has
 * changed; NOMEM. */
IDEM_API idem_status idem_auth_take(idem_auth *auth, const char *kept, size_t len);

/* In `load`: what is kept comes later, with idem_auth_loaded. */
IDEM_API void idem_auth_hold(idem_auth *auth);
/* Goes on after idem_auth_hold. `why` (NULL: all is well) says why it cannot: then the requests that wait are given up. */
IDEM_API void idem_auth_loaded(idem_auth *auth, const char *why);
/* Forgets the tokens, and asks the authorization server to forget them, too (RFC 7009); what was kept elsewhere is yours to
 * remove. `done` runs once, later, unless the auth is freed before: `revoked` if the server agreed. STATE: requests wait
 * for a token. */
IDEM_API idem_status idem_auth_log_out(idem_auth *auth,
                                       void (*done)(idem_auth *auth, bool revoked, void *user));

/* "Authorization: Bearer ..." (or DPoP), for the headers of a new client; NULL: there is no token. Lent until the auth is spoken
 * to again. */
IDEM_API const char *idem_auth_line(const idem_auth *auth);
/* Why the last request was given up, a sentence without secrets; "": none was. */
IDEM_API const char *idem_auth_why(const idem_auth *auth);

#ifdef __cplusplus
}
#endif

#endif
