/* callback.c - see callback.h. The page is a route of idem's own HTTP server, which sees to it that only this machine asks
 * and that Host is a loopback name; nothing of the query is shown in it. */
#include "callback.h"

#include "config/memory.h"

#include <idem/http.h>
#include <idem/uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PATH "/callback"

struct callback {
  idem_listener *listener;
  idem_router *router; /* with nothing in it */
  callback_hooks hooks;
  char uri[512];
  char path[400];
};

/* -------------------------------------------------------------------------- queries */

static int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool decode(const char *data, size_t len, char *out, size_t size) {
  size_t used = 0;
  for (size_t i = 0; i < len; i++) {
    bool coded = data[i] == '%' && i + 2 < len && hex(data[i + 1]) >= 0 && hex(data[i + 2]) >= 0;
    if (used + 1 >= size) return false;
    out[used++] = coded ? (char)(hex(data[i + 1]) * 16 + hex(data[i + 2])) : data[i];
    if (coded) i += 2;
  }
  out[used] = 0;
  return true;
}

bool callback_value(const char *query, size_t len, const char *name, char *out, size_t size) {
  const char *end = query + len, *found = NULL;
  size_t name_len = strlen(name), found_len = 0;
  for (const char *at = query; at < end;) {
    const char *stop = memchr(at, '&', (size_t)(end - at));
    if (!stop) stop = end;
    if ((size_t)(stop - at) > name_len && strncmp(at, name, name_len) == 0 && at[name_len] == '=') {
      if (found) return false;
      found = at + name_len + 1;
      found_len = (size_t)(stop - found);
    }
    at = stop + 1;
  }
  return found && decode(found, found_len, out, size);
}

/* ------------------------------------------------------------------------- the page */

static const char thanks[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>idem</title>"
    "<h1>You can close this page</h1><p>idem has its answer; the terminal says how it goes on.\n";
static const char stranger[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>idem</title>"
    "<h1>This is not the answer that idem waits for</h1>"
    "<p>It may be of an earlier attempt. Open the page that the terminal shows.\n";

static void respond(idem_http_exchange *exchange, bool good) {
  static const char *const headers[] = {"Cache-Control: no-store", "Referrer-Policy: no-referrer",
                                        NULL};
  idem_http_answer answer = {.status = good ? 200 : 400,
                             .type = "text/html; charset=utf-8",
                             .headers = headers,
                             .body = good ? thanks : stranger,
                             .len = good ? sizeof thanks - 1 : sizeof stranger - 1,
                             .lasts = true};
  (void)idem_http_respond(exchange, &answer);
}

static void serve(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
  callback *self = user;
  size_t len = 0;
  const char *query = idem_http_request_query(request, &len);
  bool asked = idem_http_request_method(request) == IDEM_HTTP_GET;
  bool good = asked && query && self->hooks.is_answer(query, len, self->hooks.user);
  respond(exchange, good);
  if (good) self->hooks.took(query, len, self->hooks.user);
}

/* ------------------------------------------------------------------------ listening */

/* "http://HOST:PORT" of a loopback name, and its path. */
static size_t origin_of(const char *uri) {
  static const char *const hosts[] = {"http://127.0.0.1:", "http://localhost:", "http://[::1]:"};
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
    size_t len = strlen(hosts[i]);
    if (strncmp(uri, hosts[i], len) != 0) continue;
    size_t digits = strspn(uri + len, "0123456789");
    return digits && digits <= 5 && uri[len + digits] == '/' ? len + digits : 0;
  }
  return 0;
}

bool callback_fits(const char *uri) {
  size_t origin = origin_of(uri);
  return origin && strlen(uri) < sizeof((callback *)NULL)->uri && !strpbrk(uri, "?# \"<>") &&
         strlen(uri + origin) < sizeof((callback *)NULL)->path;
}

static void on_stopped(void *user) {
  callback *self = user;
  idem_router_free(self->router);
  free(self);
}

static idem_status listen_at(callback *self, uv_loop_t *loop, const char *origin, idem_log *log) {
  char url[600];
  const idem_http_route route = {
      .path = self->path, .methods = IDEM_HTTP_GET, .serve = serve, .user = self, .no_token = true};
  const idem_http_opts http = {.routes = &route, .route_count = 1, .no_admin = true};
  const idem_serve_opts opts = {
      .router = self->router, .log = log, .http = &http, .grace_ms = 500, .max_connections = 64};
  snprintf(url, sizeof url, "%s/rpc-that-has-no-methods", origin);
  return idem_serve(loop, url, &opts, &self->listener);
}

callback *callback_start(uv_loop_t *loop, const char *wanted, const callback_hooks *hooks,
                         idem_log *log) {
  char origin[64] = "http://127.0.0.1:0";
  callback *self = calloc(1, sizeof *self);
  if (!self) memory_exhausted();
  self->hooks = *hooks;
  size_t len = wanted ? origin_of(wanted) : 0;
  if (wanted) snprintf(origin, sizeof origin, "%.*s", (int)len, wanted);
  snprintf(self->path, sizeof self->path, "%s", wanted ? wanted + len : DEFAULT_PATH);
  if (idem_router_new(&(idem_router_opts){.seed = idem_random_seed()}, &self->router) != IDEM_OK)
    memory_exhausted();
  if (listen_at(self, loop, origin, log) != IDEM_OK) {
    on_stopped(self);
    return NULL;
  }
  const char *url = idem_listener_url(self->listener);
  snprintf(self->uri, sizeof self->uri, "%.*s%s",
           wanted ? (int)len : (int)strcspn(url + 7, "/") + 7, wanted ? wanted : url, self->path);
  return self;
}

const char *callback_uri(const callback *self) { return self->uri; }

void callback_stop(callback *self) {
  if (self) idem_listener_stop(self->listener, on_stopped, self);
}
