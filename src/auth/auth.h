/* auth.h - authorization without I/O: what a challenge says, where metadata lies and what of it may be believed, and the
 * steps by which a client comes to a token. Whoever has a loop fetches, opens and waits; here is what to fetch, and what an
 * answer means. Signatures come through a hook: no library for them is known here. See docs/internals/auth.md. */
#ifndef IDEM_AUTH_PRIVATE_H
#define IDEM_AUTH_PRIVATE_H

#include "../base/base.h"
#include "../json/json.h"

/* ----------------------------------------------------------------- texts (text.c) */

/* name=value with what is not unreserved percent-encoded, "&" before it unless it is the first. Without a value
 * (NULL) nothing is added. */
idem_status idem__auth_form_add(idem_buf *form, const char *name, const char *value);
/* A parameter of a query or form, decoded; NULL: absent, there twice, or not text. Free it. */
char *idem__auth_form_get(const idem_alloc *alloc, const char *form, size_t len, const char *name);

/* Where parts of an http or https URL are; `path` begins with "/" or is empty. False: it is no such URL, or has a user, a
 * fragment, white space or control characters. */
typedef struct idem__auth_url {
  bool secure;
  const char *origin; /* "https://host:port", as it is written */
  size_t origin_len;
  const char *host; /* without brackets and port */
  size_t host_len;
  const char *path;
  size_t path_len;
  const char *query; /* without "?" */
  size_t query_len;
} idem__auth_url;
bool idem__auth_url_parse(const char *text, idem__auth_url *url);
/* localhost, 127.0.0.0/8 or ::1 by their names: whether it is there in truth is for who connects to say. */
bool idem__auth_url_is_loopback(const idem__auth_url *url);
/* A server may be asked: https anywhere, http on loopback alone. */
bool idem__auth_url_is_safe(const char *text);

/* Why a server cannot be asked there, or, `bare`, be known by it: a well-known path is joined to such a URL, which leaves no room for a query;
 * NULL: it can. Whether it is safe is another question. */
const char *idem__auth_url_fault(const char *text, bool bare);

/* 4 or 16 bytes: an address that anybody in the world could have, and not this machine's, its network's or nobody's. */
bool idem__auth_address_is_public(const uint8_t *address, size_t len);

/* Scopes are sets of words. Whether every word of `part` is in `whole`; both may be NULL, which is the empty set. */
bool idem__auth_scope_has(const char *whole, const char *part);
/* Both in one text, each word once; NULL where both are empty. *status: NOMEM. */
char *idem__auth_scope_union(const idem_alloc *alloc, const char *one, const char *other,
                             idem_status *status);

/* ------------------------------------------------------------- challenges (challenge.c) */

/* What the Bearer (or DPoP) challenge of a WWW-Authenticate header asks for; texts are owned. */
typedef struct idem__auth_challenge {
  bool bearer, dpop;
  char *resource_metadata;
  char *scope;
  char *error;
} idem__auth_challenge;
/* Adds what one header says; the first word on each thing counts. INVAL: it is no such header (what came before stays);
 * NOMEM. Everything over 8 KiB is INVAL. */
idem_status idem__auth_challenge_read(const idem_alloc *alloc, const char *header, size_t len,
                                      idem__auth_challenge *out);
void idem__auth_challenge_deinit(const idem_alloc *alloc, idem__auth_challenge *challenge);

/* --------------------------------------------------------------- metadata (metadata.c) */

/* The n-th place to look for it (0, 1, ...); NULL: there are no more. *status: NOMEM. */
char *idem__auth_resource_place(const idem_alloc *alloc, const char *resource, unsigned n,
                                idem_status *status);
char *idem__auth_server_place(const idem_alloc *alloc, const char *issuer, unsigned n,
                              idem_status *status);
/* Whether metadata that were found at `place` are about the server at `url` (RFC 9728, 3.3): the resource that they name is it, or the
 * one that this well-known place is made of, if the server lies in that. */
bool idem__auth_resource_fits(const char *resource, const char *place, const char *url);

/* How a client shows who it is at the token endpoint. */
typedef enum idem__auth_method {
  IDEM__AUTH_NONE,
  IDEM__AUTH_BASIC,
  IDEM__AUTH_POST,
  IDEM__AUTH_PRIVATE_KEY_JWT
} idem__auth_method;

typedef struct idem__auth_server {
  char *issuer;
  char *authorization_endpoint;
  char *token_endpoint;
  char *registration_endpoint;
  char *device_endpoint;
  char *revocation_endpoint;
  char *scopes;           /* those it knows, as a text; NULL: it does not say */
  unsigned methods;       /* bits of idem__auth_method */
  bool silent_on_methods; /* `methods` is what RFC 8414 has then: a secret, by basic */
  bool s256;
  bool binds;           /* tokens, to a key, by proofs with ES256 (DPoP) */
  bool names_itself;    /* answers carry `iss` */
  bool takes_documents; /* client ids that are URLs of metadata documents */
} idem__auth_server;
/* INVAL: not such a document, or an endpoint that may not be asked; *why is a sentence then. */
idem_status idem__auth_server_read(const idem_alloc *alloc, const char *body, size_t len,
                                   idem__auth_server *out, const char **why);
/* Where a server says nothing of itself (2025-03-26): /authorize, /token and /register of its origin. */
idem_status idem__auth_server_default(const idem_alloc *alloc, const char *origin,
                                      idem__auth_server *out);
void idem__auth_server_deinit(const idem_alloc *alloc, idem__auth_server *server);

#define IDEM__AUTH_OTHERS 3u
typedef struct idem__auth_resource {
  char *resource;
  char *server;                    /* the first authorization server that may be asked ... */
  char *others[IDEM__AUTH_OTHERS]; /* ... and those behind it; NULL: no more */
  char *scopes;                    /* all that it knows; NULL: it does not say */
  bool binds;                      /* takes only tokens that are bound to a key (DPoP) */
} idem__auth_resource;
idem_status idem__auth_resource_read(const idem_alloc *alloc, const char *body, size_t len,
                                     idem__auth_resource *out, const char **why);
void idem__auth_resource_deinit(const idem_alloc *alloc, idem__auth_resource *resource);

/* -------------------------------------------------------------------- the flow (flow.c) */

typedef enum idem__auth_grant {
  IDEM__AUTH_CODE,               /* a person, in a browser */
  IDEM__AUTH_DEVICE,             /* a person, in a browser elsewhere */
  IDEM__AUTH_CLIENT_CREDENTIALS, /* the program itself */
  IDEM__AUTH_JWT_BEARER,         /* with an assertion of somebody else's (workload identity) */
  IDEM__AUTH_ENTERPRISE          /* with an ID token, exchanged at the company's own server first */
} idem__auth_grant;

/* Strings are copied. Zero means the default. */
typedef struct idem__auth_opts {
  const char *url; /* the MCP server */
  idem__auth_grant grant;
  const char *client_id; /* registered beforehand; NULL: see below */
  const char *client_secret;
  const char *
      client_document; /* https URL of a metadata document that is the client id where the server takes such */
  const char *client_name;        /* for registration; NULL: "idem" */
  const char *redirect_uri;       /* CODE: where the browser comes back to */
  const char *scope;              /* asked for in any case */
  bool refresh;                   /* a refresh token is wanted */
  const char *assertion;          /* JWT_BEARER: a JWT; ENTERPRISE: the ID token */
  const char *idp_token_endpoint; /* ENTERPRISE */
  const char *idp_client_id;
  const char *idp_client_secret; /* shown there alone; NULL: it has none */
  bool idp_secret_post;          /* in the form, for who does not take it as RFC 6749 has it */
  bool kept_only;       /* what was kept is used and refreshed, no authorization is begun */
  bool strict_resource; /* no server without resource metadata, as it was before 2025-06-18 */
  void (*random)(void *bytes, size_t len, void *user);
  uint64_t (*now_s)(void *user); /* since 1970 */
  /* A compact JWS over these claims (JSON) with the client's key; NULL: it has none. */
  idem_status (*sign)(const char *claims, size_t len, idem_buf *out, void *user);
  /* The same with the key that tokens are bound to (DPoP), whose public part stands in the header; NULL: none are. That key
   * as PEM, for keeping: put, and taken. */
  idem_status (*prove)(const char *claims, size_t len, idem_buf *out, void *user);
  idem_status (*put_key)(idem_buf *out, void *user);
  idem_status (*take_key)(const char *pem, size_t len, void *user);
  void *user;
  const idem_alloc *alloc;
} idem__auth_opts;

typedef enum idem__auth_want {
  IDEM__AUTH_IDLE,  /* nothing to do until a request is refused */
  IDEM__AUTH_FETCH, /* ask `url`; then idem__auth_fetched */
  IDEM__AUTH_BROWSE, /* a person is to open `url`; then idem__auth_redirected, or (DEVICE) fetch after a while */
  IDEM__AUTH_WAIT,  /* `wait_ms` later: idem__auth_waited */
  IDEM__AUTH_DONE,  /* there is a token */
  IDEM__AUTH_FAILED /* `why` says why; a further refusal begins anew */
} idem__auth_want;

/* Lent until the flow is spoken to again. */
typedef struct idem__auth_step {
  idem__auth_want want;
  const char *url;
  const char *form;          /* POST this, NULL: GET */
  const char *json;          /* POST this as application/json */
  const char *authorization; /* a header's value; NULL: none. Secret, as the form is */
  const char *proof;         /* the value of a DPoP header; NULL: none */
  const char *user_code;     /* DEVICE: what the person types at `url` */
  uint64_t wait_ms;
  const char *why;
} idem__auth_step;

typedef struct idem__auth_flow idem__auth_flow;
idem_status idem__auth_flow_new(const idem__auth_opts *opts, idem__auth_flow **out);
void idem__auth_flow_free(idem__auth_flow *flow);
const idem__auth_step *idem__auth_step_of(const idem__auth_flow *flow);

/* A request was refused with this status (401 or 403) and these challenges: for the first time, or once more with the
 * token that it got for that. */
void idem__auth_refused(idem__auth_flow *flow, int status, const idem__auth_challenge *challenge,
                        bool first);
/* DPoP-Nonce of the answer that follows, and of a request's that was refused; NULL: none. True: the request may be sent again,
 * with another proof. */
void idem__auth_server_nonce(idem__auth_flow *flow, const char *nonce);
bool idem__auth_resource_nonce(idem__auth_flow *flow, const char *nonce);
/* Appends the value of a request's DPoP header, good for this one. STATE: the token needs none. */
idem_status idem__auth_proof(const idem__auth_flow *flow, const char *method, const char *url,
                             idem_buf *out);
/* The answer to a FETCH; http_status 0: none came. */
void idem__auth_fetched(idem__auth_flow *flow, int http_status, const char *body, size_t len);
/* The browser came back to the redirect URI with this query. */
void idem__auth_redirected(idem__auth_flow *flow, const char *query, size_t len);
void idem__auth_waited(idem__auth_flow *flow);

/* Forgets the tokens, having the server forget them as well, where it takes that (RFC 7009): FETCH, else IDLE at once.
 * Afterwards: whether it agreed. */
void idem__auth_revoke(idem__auth_flow *flow);
bool idem__auth_revoked(const idem__auth_flow *flow);

/* What a request carries, "Bearer ..."; NULL: there is no token. */
const char *idem__auth_authorization(const idem__auth_flow *flow);
/* For keeping between processes: issuer, resource, client and tokens as JSON, secret. take: what was kept; INVAL. */
idem_status idem__auth_flow_save(const idem__auth_flow *flow, idem_buf *out);
idem_status idem__auth_flow_take(idem__auth_flow *flow, const char *json, size_t len);
/* Seconds since 1970 when the token ends; UINT64_MAX: nobody said. */
uint64_t idem__auth_expires(const idem__auth_flow *flow);

#endif
