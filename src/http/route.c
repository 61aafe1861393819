/* route.c - the routes of a server: a table that grows before serving, and finding one in it.
 * What is given is checked and copied here, the lines that its answers share are written once.
 * See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

#define LINES_MAX ((size_t)16 * 1024) /* header lines of one route */

struct idem__http_copy {
  idem__http_copy *next;
  char text[];
};

/* ------------------------------------------------------------------ copies */

static idem_status copy_text(const idem_http_server *server, idem__http_route *route,
                             const char **text) {
  if (!*text) return IDEM_OK;
  size_t size = strlen(*text) + 1;
  idem__http_copy *copy = idem__malloc(&server->alloc, sizeof *copy + size);
  if (!copy) return IDEM_E_NOMEM;
  memcpy(copy->text, *text, size);
  copy->next = route->copies;
  route->copies = copy;
  *text = copy->text;
  return IDEM_OK;
}

static idem_status copy_list(const idem_http_server *server, idem__http_route *route,
                             const char *const *list) {
  size_t count = 0;
  while (list && list[count]) count++;
  if (!list) return IDEM_OK;
  route->types = idem__calloc(&server->alloc, (count + 1) * sizeof *route->types);
  if (!route->types) return IDEM_E_NOMEM;
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < count && status == IDEM_OK; i++) {
    route->types[i] = list[i];
    status = copy_text(server, route, &route->types[i]);
  }
  return status;
}

static idem_status copy_texts(const idem_http_server *server, idem__http_route *route) {
  idem_http_route *is = &route->is;
  const char **texts[] = {&is->path, &is->challenge, &is->allow_headers, &is->allow_prefix,
                          &is->expose_headers};
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && status == IDEM_OK; i++)
    status = copy_text(server, route, texts[i]);
  if (status == IDEM_OK) status = copy_list(server, route, is->types);
  if (status != IDEM_OK) return status;
  is->types = route->types;
  return idem__token_list_init(&route->tokens, &server->alloc, is->tokens, server->log);
}

static void deinit(const idem_http_server *server, idem__http_route *route) {
  while (route->copies) {
    idem__http_copy *next = route->copies->next;
    idem__free(&server->alloc, route->copies);
    route->copies = next;
  }
  idem__token_list_deinit(&route->tokens, &server->alloc);
  idem__free(&server->alloc, (void *)route->types);
  idem_buf_deinit(&route->lines);
}

/* ----------------------------------------------------------- header lines */

idem__view idem__http_line_name(const char *line) {
  const char *colon = strchr(line, ':');
  return (idem__view){line, colon ? (size_t)(colon - line) : 0};
}

/* What frames a message, or is said elsewhere, is not for others to say. */
static bool is_ours(idem__view name) {
  static const char *const ours[] = {"content-length", "transfer-encoding", "connection",
                                     "date",           "content-type",      "upgrade"};
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    if (idem__view_is(name, ours[i], strlen(ours[i]))) return true;
  return false;
}

bool idem__http_good_value(const char *value) {
  for (; *value; value++)
    if (((unsigned char)*value < ' ' && *value != '\t') || *value == 127) return false;
  return true;
}

bool idem__http_good_lines(const char *const *lines) {
  for (; lines && *lines; lines++) {
    idem__view name = idem__http_line_name(*lines);
    if (!idem__view_is_token(name) || is_ours(name)) return false;
    if (!idem__http_good_value(*lines + name.len)) return false;
  }
  return true;
}

bool idem__http_lines_name(const char *const *lines, idem__view name) {
  for (; lines && *lines; lines++) {
    idem__view one = idem__http_line_name(*lines);
    if (idem__view_is(one, name.at, name.len)) return true;
  }
  return false;
}

idem_status idem__http_put_lines(idem_buf *out, const char *const *lines) {
  idem_status status = IDEM_OK;
  for (; lines && *lines && status == IDEM_OK; lines++)
    status = idem_buf_printf(out, "%s\r\n", *lines);
  return status;
}

idem_status idem__http_put_others(idem_buf *out, idem__view lines, const char *const *named) {
  idem_status status = IDEM_OK;
  while (lines.len && status == IDEM_OK) {
    const char *end = memchr(lines.at, '\n', lines.len);
    size_t len = (size_t)(end - lines.at) + 1;
    if (!idem__http_lines_name(named, idem__http_line_name(lines.at)))
      status = idem_buf_put(out, lines.at, len);
    lines.at += len;
    lines.len -= len;
  }
  return status;
}

static idem_status write_lines(const idem_http_server *server, idem__http_route *route) {
  const char *const *given = route->is.headers;
  idem__view usual = idem__http_usual_lines();
  idem_buf_init(&route->lines, &server->alloc, LINES_MAX);
  if (!idem__http_good_lines(given)) return IDEM_E_INVAL;
  idem_status status = idem__http_put_others(&route->lines, usual, given);
  return status == IDEM_OK ? idem__http_put_lines(&route->lines, given) : status;
}

/* ------------------------------------------------------------------- table */

static bool good_path(const char *path) {
  if (!path || *path != '/') return false;
  for (; *path; path++)
    if ((unsigned char)*path <= ' ' || *path == 127 || *path == '?' || *path == '#') return false;
  return true;
}

static bool good_route(const idem_http_server *server, const idem_http_route *is) {
  if (!good_path(is->path) || !is->serve || is->methods >= IDEM_HTTP_OTHER) return false;
  const char *texts[] = {is->challenge, is->allow_headers, is->allow_prefix, is->expose_headers};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i] && !idem__http_good_value(texts[i])) return false;
  for (size_t i = 0; i < server->route_count; i++)
    if (strcmp(server->routes[i].is.path, is->path) == 0) return false;
  return true;
}

static idem_status init(const idem_http_server *server, idem__http_route *route,
                        const idem_http_route *is, const idem__http_binding *binding) {
  *route = (idem__http_route){.is = *is, .embedded = !binding};
  if (binding) route->binding = *binding;
  idem_status status = copy_texts(server, route);
  if (status == IDEM_OK) status = write_lines(server, route);
  route->is.headers = NULL;
  route->is.tokens = NULL;
  route->path_len = strlen(is->path);
  route->methods = is->methods & ~(unsigned)IDEM_HTTP_OPTIONS;
  if (route->methods & IDEM_HTTP_GET) route->methods |= IDEM_HTTP_HEAD;
  if (!is->body_bytes || is->body_bytes > server->body_bytes)
    route->is.body_bytes = server->body_bytes;
  if (!is->max_kept) route->is.max_kept = 1024;
  if (!is->answer_ms) route->is.answer_ms = 30000;
  return status;
}

static idem_status grow(idem_http_server *server) {
  if (server->route_count >= IDEM__HTTP_ROUTES) return IDEM_E_LIMIT;
  if (server->route_count < server->route_room) return IDEM_OK;
  size_t room = server->route_room ? 2 * server->route_room : 8;
  void *larger =
      idem__realloc(&server->alloc, server->routes, server->route_room * sizeof *server->routes,
                    room * sizeof *server->routes);
  if (!larger) return IDEM_E_NOMEM;
  server->routes = larger;
  server->route_room = room;
  return IDEM_OK;
}

idem_status idem__http_server_add(idem_http_server *server, const idem_http_route *is,
                                  const idem__http_binding *binding) {
  if (!good_route(server, is)) return IDEM_E_INVAL;
  idem_status status = grow(server);
  if (status != IDEM_OK) return status;
  idem__http_route *route = &server->routes[server->route_count];
  status = init(server, route, is, binding);
  if (status != IDEM_OK) {
    deinit(server, route);
    return status;
  }
  server->route_count++;
  /* One protocol on top is all there is at a listener. */
  const idem__http_rules *rules = route->binding.rules;
  if (!server->given_names && rules) server->given_names = rules->names;
  return IDEM_OK;
}

void idem__http_routes_free(idem_http_server *server) {
  for (size_t i = 0; i < server->route_count; i++) deinit(server, &server->routes[i]);
  idem__free(&server->alloc, server->routes);
  server->routes = NULL;
  server->route_count = server->route_room = 0;
}

/* --------------------------------------------------------------- finding */

static bool is_below(const idem__http_route *route, idem__view path) {
  if (!route->is.below || path.len <= route->path_len) return false;
  if (memcmp(path.at, route->is.path, route->path_len) != 0) return false;
  return route->is.path[route->path_len - 1] == '/' || path.at[route->path_len] == '/';
}

const idem__http_route *idem__http_told_route(const idem_http_server *server) {
  for (size_t i = 0; i < server->route_count; i++)
    if (server->routes[i].binding.told) return &server->routes[i];
  return NULL;
}

idem__http_route *idem__http_find_route(const idem_http_server *server, idem__view path) {
  idem__http_route *found = NULL;
  for (size_t i = 0; i < server->route_count; i++) {
    idem__http_route *route = &server->routes[i];
    if (route->path_len == path.len && memcmp(route->is.path, path.at, path.len) == 0) return route;
    if (is_below(route, path) && (!found || found->path_len < route->path_len)) found = route;
  }
  return found;
}
