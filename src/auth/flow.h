/* flow.h - the insides of a flow, for its files: flow.c (what comes next), flow_find.c (who protects the server),
 * flow_client.c (who we are there), flow_grant.c (tokens), flow_proof.c (their keys), flow_said.c (what may be shown). */
#ifndef IDEM_AUTH_FLOW_H
#define IDEM_AUTH_FLOW_H

#include "auth.h"

typedef enum flow_state {
  FLOW_IDLE,
  FLOW_FIND_RESOURCE, /* a place of the resource's metadata is asked */
  FLOW_FIND_SERVER,   /* a place of the authorization server's metadata is asked */
  FLOW_REGISTER,      /* the registration endpoint is asked */
  FLOW_BROWSE,        /* a person is in the browser */
  FLOW_DEVICE,        /* the device endpoint is asked */
  FLOW_DEVICE_WAIT,   /* until it is time to ask whether the person is done */
  FLOW_DEVICE_POLL,   /* that is asked */
  FLOW_EXCHANGE,      /* the company's server is asked for an assertion */
  FLOW_TOKEN,         /* the token endpoint is asked */
  FLOW_REFRESH,       /* with the refresh token */
  FLOW_REVOKE,        /* the revocation endpoint is asked */
  FLOW_DONE,
  FLOW_FAILED
} flow_state;

/* Texts that a flow owns. The first ones are the options'. */
typedef enum flow_text {
  TEXT_URL,
  TEXT_OWN_CLIENT_ID,
  TEXT_OWN_CLIENT_SECRET,
  TEXT_CLIENT_DOCUMENT,
  TEXT_CLIENT_NAME,
  TEXT_REDIRECT_URI,
  TEXT_OWN_SCOPE,
  TEXT_ASSERTION,
  TEXT_IDP_TOKEN_ENDPOINT,
  TEXT_IDP_CLIENT_ID,
  TEXT_IDP_CLIENT_SECRET,
  TEXT_CHALLENGED_SCOPE,
  TEXT_CHALLENGED_METADATA,
  TEXT_RESOURCE,      /* as its metadata spell it */
  TEXT_SCOPE,         /* asked for the last time */
  TEXT_CLIENT_ISSUER, /* where the client below is known */
  TEXT_CLIENT_ID,
  TEXT_CLIENT_SECRET,
  TEXT_REGISTERED_FOR, /* the redirect URI it was registered with, or "device"; NULL: it was not */
  TEXT_STATE,
  TEXT_VERIFIER,
  TEXT_CODE,
  TEXT_GRANTED_ASSERTION,
  TEXT_DEVICE_CODE,
  TEXT_USER_CODE,
  TEXT_ACCESS_TOKEN,
  TEXT_REFRESH_TOKEN,
  TEXT_SERVER_NONCE, /* for the next proof to the token endpoint */
  TEXT_RESOURCE_NONCE,
  TEXT_TROUBLE, /* the first that was met where there are more places to look */
  TEXT_WHY,
  TEXT_COUNT
} flow_text;

struct idem__auth_flow {
  idem_alloc alloc;
  idem__auth_opts opts; /* of its strings only whether they are there */
  flow_state state;
  idem__auth_step step;
  unsigned place;                      /* which place is asked */
  unsigned attempts;                   /* since a token was last good */
  bool asked_proof;                    /* the resource would like proofs of possession (DPoP) ... */
  bool needs_proof;                    /* ... or takes nothing else */
  bool proving;                        /* the token endpoint is given one */
  bool bound;                          /* the token is of no use without */
  bool nonce_tried;                    /* for the answer that is waited for */
  void (*redo)(idem__auth_flow *flow); /* asks the token endpoint once more */
  bool stepping;                       /* there is a token, of too few scopes */
  bool registered;                     /* the client, for the request that waits */
  bool revoked;                        /* the server agreed to forget the tokens */
  bool old_server; /* there is no resource metadata: the server is its own, as before 2025-06-18 */
  char *texts[TEXT_COUNT];
  char *resource_scopes;
  idem__auth_server server;
  char *others[IDEM__AUTH_OTHERS]; /* that the resource names, too */
  idem__auth_method method;        /* of the client below */
  uint64_t expires_s, device_until_s, interval_ms;
  idem_buf url, form, header, proof, bearer;
};

/* Copies it; NULL forgets. NOMEM fails the flow. */
bool flow_set(idem__auth_flow *flow, flow_text which, const char *value, size_t len);
bool flow_copy(idem__auth_flow *flow, flow_text which, const char *value); /* takes NULL */
void flow_fail(idem__auth_flow *flow, const char *format, ...) IDEM_PRINTF(2, 3);
/* The same sentence, for when nothing better is found; the first one counts. */
void flow_note(idem__auth_flow *flow, const char *format, ...) IDEM_PRINTF(2, 3);
/* Asks: GET, or POST of flow->form. The url is the flow's. */
void flow_fetch(idem__auth_flow *flow, flow_state state, const char *url);
void flow_post(idem__auth_flow *flow, flow_state state, const char *url);
bool flow_random_text(idem__auth_flow *flow, flow_text which);
/* Header values are one line of visible characters: nothing else goes into one. Takes NULL. */
bool flow_is_token(const char *text);
/* "Bearer ..." of the access token that the flow has, or "DPoP ...". */
idem_status flow_make_bearer(idem__auth_flow *flow);
/* A secret of any length as a header or form wants it; false: no memory, and the flow has failed. */
bool flow_good(idem__auth_flow *flow, idem_status status);

/* A member of a document; NULL: it is not there, or no text that could be meant. */
const char *flow_text_of(yyjson_val *root, const char *name);
/* What a server calls an error; NULL: nothing that may be shown, or it is NULL. A scope that it asks for. */
const char *flow_error(const idem__auth_flow *flow, const char *error);
const char *flow_scope(const idem__auth_flow *flow, const char *scope);
/* ", error: description" of an answer, as far as that may be shown. */
#define FLOW_SAID 400
void flow_said(const idem__auth_flow *flow, yyjson_val *root, char out[FLOW_SAID]);

void flow_begin(idem__auth_flow *flow);
void flow_find(idem__auth_flow *flow);
void flow_forget_others(idem__auth_flow *flow);
void flow_resource_fetched(idem__auth_flow *flow, int status, const char *body, size_t len);
void flow_server_fetched(idem__auth_flow *flow, int status, const char *body, size_t len);

void flow_choose_client(idem__auth_flow *flow);
void flow_registered(idem__auth_flow *flow, int status, const char *body, size_t len);
/* Puts who we are into the form or the header. */
bool flow_add_client(idem__auth_flow *flow);
bool flow_add_idp_client(idem__auth_flow *flow);

void flow_begin_grant(idem__auth_flow *flow);
void flow_code_came(idem__auth_flow *flow, const char *query, size_t len);
void flow_exchanged(idem__auth_flow *flow, int status, const char *body, size_t len);
void flow_device_came(idem__auth_flow *flow, int status, const char *body, size_t len);
void flow_device_poll(idem__auth_flow *flow);
void flow_token_came(idem__auth_flow *flow, int status, const char *body, size_t len);
void flow_refresh(idem__auth_flow *flow);
/* Whether the next token is to be bound; false: it must be and cannot, and the flow has failed. */
bool flow_choose_proof(idem__auth_flow *flow);
/* For a POST to that URL, into flow->proof. */
bool flow_put_proof(idem__auth_flow *flow, const char *url);
idem_status flow_save_key(const idem__auth_flow *flow, idem_buf *out);
bool flow_take_key(idem__auth_flow *flow, const char *pem); /* takes NULL */
void flow_wipe(char *text, size_t len);
void flow_revoked(idem__auth_flow *flow, int status);

#endif
