/* flow_find.c - who protects a server: its resource metadata name an authorization server, whose own metadata say how it
 * is asked. What a document says of somebody else is not believed. */
#include "flow.h"

#include <string.h>

void flow_forget_others(idem__auth_flow *flow) {
  for (size_t i = 0; i < IDEM__AUTH_OTHERS; i++) {
    idem__free(&flow->alloc, flow->others[i]);
    flow->others[i] = NULL;
  }
}

static void fail_by_trouble(idem__auth_flow *flow) {
  flow_fail(flow, "%s", flow->texts[TEXT_TROUBLE] ? flow->texts[TEXT_TROUBLE] : "no memory");
}

/* There is something else in this place, as where a web application answers whatever it is asked with its page: nothing was found. */
static bool is_found(int status, const char *body, size_t len) {
  size_t at = 0;
  while (at < len && strchr(" \t\r\n", body[at])) at++;
  return status == 200 && at < len && body[at] == '{';
}

static void find_server(idem__auth_flow *flow, const char *issuer);

/* Who is known at one stays with it: it may be away for a moment, and another is another login. */
static bool is_known_here(const idem__auth_flow *flow) {
  const char *where = flow->texts[TEXT_CLIENT_ISSUER];
  return where && flow->texts[TEXT_CLIENT_ID] && strcmp(where, flow->server.issuer) == 0;
}

/* Nobody was asked for anything yet, so another that the resource names will do. */
static void try_next_server(idem__auth_flow *flow) {
  char *next = flow->others[0];
  if (!next || !flow->server.issuer || is_known_here(flow)) {
    fail_by_trouble(flow);
    return;
  }
  for (size_t i = 1; i < IDEM__AUTH_OTHERS; i++) flow->others[i - 1] = flow->others[i];
  flow->others[IDEM__AUTH_OTHERS - 1] = NULL;
  idem__auth_server_deinit(&flow->alloc, &flow->server);
  flow->server.issuer = next;
  flow->place = 0;
  find_server(flow, next);
}

static void find_server(idem__auth_flow *flow, const char *issuer) {
  idem_status status;
  char *url = idem__auth_server_place(&flow->alloc, issuer, flow->place, &status);
  if (url) {
    flow_fetch(flow, FLOW_FIND_SERVER, url);
  } else if (flow_good(flow, status)) {
    flow_note(flow, "the authorization server has no metadata");
    try_next_server(flow);
  }
  idem__free(&flow->alloc, url);
}

/* -------------------------------------------------------------- the resource */

/* Before 2025-06-18 a server was its own authorization server. */
static void take_server_itself(idem__auth_flow *flow) {
  idem__auth_url url;
  idem__auth_url_parse(flow->texts[TEXT_URL], &url);
  if (flow->opts.strict_resource) {
    flow_fail(flow, "the server refuses, and does not say who gives tokens for it");
    return;
  }
  flow->old_server = true;
  flow->place = 0;
  idem__free(&flow->alloc, flow->resource_scopes);
  flow->resource_scopes = NULL;
  idem__auth_server_deinit(&flow->alloc, &flow->server);
  if (flow_copy(flow, TEXT_RESOURCE, NULL) &&
      flow_set(flow, TEXT_CHALLENGED_METADATA, url.origin, url.origin_len))
    find_server(flow, flow->texts[TEXT_CHALLENGED_METADATA]);
}

/* What the challenge names is the one place; else the well-known ones are tried. */
void flow_find(idem__auth_flow *flow) {
  const char *named = flow->texts[TEXT_CHALLENGED_METADATA];
  idem_status status = IDEM_OK;
  flow->old_server = false;
  if (!flow->place) flow_set(flow, TEXT_TROUBLE, NULL, 0);
  if (named) {
    flow_fetch(flow, FLOW_FIND_RESOURCE, named);
    return;
  }
  char *url = idem__auth_resource_place(&flow->alloc, flow->texts[TEXT_URL], flow->place, &status);
  if (url)
    flow_fetch(flow, FLOW_FIND_RESOURCE, url);
  else if (flow_good(flow, status) && flow->texts[TEXT_TROUBLE])
    fail_by_trouble(flow);
  else if (status == IDEM_OK)
    take_server_itself(flow);
  idem__free(&flow->alloc, url);
}

static void use_resource(idem__auth_flow *flow, idem__auth_resource *found) {
  if (!idem__auth_resource_fits(found->resource, flow->url.data, flow->texts[TEXT_URL])) {
    flow_fail(flow, "the metadata are of another resource (%.200s)", found->resource);
    return;
  }
  idem__free(&flow->alloc, flow->resource_scopes);
  flow->needs_proof = flow->needs_proof || found->binds;
  flow->resource_scopes = found->scopes;
  found->scopes = NULL;
  flow->place = 0;
  idem__auth_server_deinit(&flow->alloc, &flow->server);
  flow->server.issuer = found->server; /* who it has to be */
  found->server = NULL;
  flow_forget_others(flow);
  for (size_t i = 0; i < IDEM__AUTH_OTHERS; i++) {
    flow->others[i] = found->others[i];
    found->others[i] = NULL;
  }
  if (flow_copy(flow, TEXT_TROUBLE, NULL) && flow_copy(flow, TEXT_RESOURCE, found->resource))
    find_server(flow, flow->server.issuer);
}

/* A place that a challenge names is the only one. */
static void try_next_resource_place(idem__auth_flow *flow) {
  flow->place++;
  if (flow->state == FLOW_FAILED) return;
  if (flow->texts[TEXT_CHALLENGED_METADATA])
    fail_by_trouble(flow);
  else
    flow_find(flow);
}

void flow_resource_fetched(idem__auth_flow *flow, int status, const char *body, size_t len) {
  idem__auth_resource found;
  const char *why = "";
  if (status == 0 || status >= 500) {
    flow_note(flow, "the server's resource metadata could not be had");
  } else if (!is_found(status, body, len) && flow->texts[TEXT_CHALLENGED_METADATA]) {
    flow_note(flow, "there are no resource metadata where the server says (%d)", status);
  } else if (is_found(status, body, len)) {
    idem_status read = idem__auth_resource_read(&flow->alloc, body, len, &found, &why);
    if (read == IDEM_OK) {
      use_resource(flow, &found);
      idem__auth_resource_deinit(&flow->alloc, &found);
      return;
    }
    if (read == IDEM_E_NOMEM) flow_good(flow, read);
    flow_note(flow, "the server refuses, and %s", why);
  }
  if (status)
    try_next_resource_place(flow);
  else
    fail_by_trouble(flow);
}

/* ------------------------------------------------------ the authorization server */

static const char *wanted_issuer(const idem__auth_flow *flow) {
  return flow->old_server ? flow->texts[TEXT_CHALLENGED_METADATA] : flow->server.issuer;
}

/* An old server is an issuer by its origin, which some write with a slash behind it. Were another believed there, a code of that one
 * would go to a token endpoint that this one names. */
static bool is_issuer(const idem__auth_flow *flow, const char *issuer) {
  const char *want = wanted_issuer(flow);
  size_t len = strlen(want);
  if (strncmp(issuer, want, len) != 0) return false;
  return !issuer[len] || (flow->old_server && strcmp(issuer + len, "/") == 0);
}

static void use_server(idem__auth_flow *flow, idem__auth_server *found) {
  if (!is_issuer(flow, found->issuer)) {
    flow_note(flow, "the authorization server's metadata are of another (%.200s, not %.200s)",
              found->issuer, wanted_issuer(flow));
    try_next_server(flow);
    return;
  }
  if (flow->opts.grant == IDEM__AUTH_CODE && !flow->old_server && !found->s256) {
    flow_note(flow, "the authorization server does not say that it knows PKCE with S256");
    try_next_server(flow);
    return;
  }
  idem__auth_server_deinit(&flow->alloc, &flow->server);
  flow->server = *found;
  *found = (idem__auth_server){.issuer = NULL};
  if (flow_choose_proof(flow)) flow_choose_client(flow);
}

static void without_metadata(idem__auth_flow *flow) {
  idem__auth_server usual;
  idem_status status =
      idem__auth_server_default(&flow->alloc, flow->texts[TEXT_CHALLENGED_METADATA], &usual);
  if (flow_good(flow, status)) use_server(flow, &usual);
}

/* An old server is looked for in one place only. */
static void try_next_place(idem__auth_flow *flow) {
  flow->place++;
  if (flow->old_server)
    without_metadata(flow);
  else
    find_server(flow, flow->server.issuer);
}

/* One that does not answer does so nowhere. */
static void without_answer(idem__auth_flow *flow, int status) {
  flow_note(flow, "the authorization server's metadata could not be had");
  if (flow->old_server)
    fail_by_trouble(flow);
  else if (status == 0)
    try_next_server(flow);
  else
    try_next_place(flow);
}

static void not_readable(idem__auth_flow *flow, idem_status status, const char *why) {
  if (status == IDEM_E_NOMEM) {
    flow_good(flow, status);
    return;
  }
  flow_note(flow, "the authorization server cannot be used: %s", why);
  if (flow->old_server)
    fail_by_trouble(flow);
  else
    try_next_place(flow);
}

void flow_server_fetched(idem__auth_flow *flow, int status, const char *body, size_t len) {
  idem__auth_server found;
  const char *why = "";
  if (status == 0 || status >= 500) {
    without_answer(flow, status);
  } else if (!is_found(status, body, len)) {
    try_next_place(flow);
  } else {
    idem_status read = idem__auth_server_read(&flow->alloc, body, len, &found, &why);
    if (read == IDEM_OK)
      use_server(flow, &found);
    else
      not_readable(flow, read, why);
    idem__auth_server_deinit(&flow->alloc, &found);
  }
}
