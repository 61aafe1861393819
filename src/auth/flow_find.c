/* flow_find.c - who protects a server: its resource metadata name an authorization server, whose own metadata say how it
 * is asked. What a document says of somebody else is not believed. */
#include "flow.h"

#include <string.h>

/* -------------------------------------------------------------- the resource */

static void find_server(idem__auth_flow *flow, const char *issuer) {
  idem_status status;
  char *url = idem__auth_server_place(&flow->alloc, issuer, flow->place, &status);
  if (url)
    flow_fetch(flow, FLOW_FIND_SERVER, url);
  else
    flow_fail(flow, status == IDEM_OK ? "the authorization server has no metadata" : "no memory");
  idem__free(&flow->alloc, url);
}

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
  if (named) {
    flow_fetch(flow, FLOW_FIND_RESOURCE, named);
    return;
  }
  char *url = idem__auth_resource_place(&flow->alloc, flow->texts[TEXT_URL], flow->place, &status);
  if (url)
    flow_fetch(flow, FLOW_FIND_RESOURCE, url);
  else if (flow_good(flow, status))
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
  if (flow_copy(flow, TEXT_RESOURCE, found->resource)) find_server(flow, flow->server.issuer);
}

/* There is something else in this place, as where a web application answers whatever it is asked with its page: nothing was found. */
static bool is_found(int status, const char *body, size_t len) {
  size_t at = 0;
  while (at < len && strchr(" \t\r\n", body[at])) at++;
  return status == 200 && at < len && body[at] == '{';
}

void flow_resource_fetched(idem__auth_flow *flow, int status, const char *body, size_t len) {
  idem__auth_resource found;
  const char *why = "";
  if (status == 0 || status >= 500) {
    flow_fail(flow, "the server's resource metadata could not be had");
  } else if (!is_found(status, body, len)) {
    flow->place++;
    if (flow->texts[TEXT_CHALLENGED_METADATA])
      flow_fail(flow, "there are no resource metadata where the server says (%d)", status);
    else
      flow_find(flow);
  } else if (idem__auth_resource_read(&flow->alloc, body, len, &found, &why) != IDEM_OK) {
    flow_fail(flow, "the server refuses, and %s", why);
  } else {
    use_resource(flow, &found);
    idem__auth_resource_deinit(&flow->alloc, &found);
  }
}

/* ------------------------------------------------------ the authorization server */

/* An old server is an issuer by its origin, which some write with a slash behind it. Were another believed there, a code of that one
 * would go to a token endpoint that this one names. */
static bool is_issuer(const idem__auth_flow *flow, const char *issuer) {
  const char *want = flow->old_server ? flow->texts[TEXT_CHALLENGED_METADATA] : flow->server.issuer;
  size_t len = strlen(want);
  if (strncmp(issuer, want, len) != 0) return false;
  return !issuer[len] || (flow->old_server && strcmp(issuer + len, "/") == 0);
}

static void use_server(idem__auth_flow *flow, idem__auth_server *found) {
  if (!is_issuer(flow, found->issuer)) {
    flow_fail(flow, "the authorization server's metadata are of another (%.200s)", found->issuer);
    return;
  }
  if (flow->opts.grant == IDEM__AUTH_CODE && !flow->old_server && !found->s256) {
    flow_fail(flow, "the authorization server does not say that it knows PKCE with S256");
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

void flow_server_fetched(idem__auth_flow *flow, int status, const char *body, size_t len) {
  idem__auth_server found;
  const char *why = "";
  if (status == 0 || status >= 500) {
    flow_fail(flow, "the authorization server's metadata could not be had");
  } else if (!is_found(status, body, len)) {
    try_next_place(flow);
  } else if (idem__auth_server_read(&flow->alloc, body, len, &found, &why) != IDEM_OK) {
    flow_fail(flow, "the authorization server cannot be used: %s", why);
  } else {
    use_server(flow, &found);
    idem__auth_server_deinit(&flow->alloc, &found);
  }
}
