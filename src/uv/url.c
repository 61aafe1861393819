/* url.c - addresses as people write them: stdio:, tcp://host:port, unix:/path, exec:.
 * A scheme may end in +lsp, which asks for Content-Length framing. Nothing here does I/O. */
#include "uv/runtime.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *prefix;
  idem__scheme scheme;
  bool content_length;
} schemes[] = {
    {"stdio:", IDEM__SCHEME_STDIO, false},   {"stdio+lsp:", IDEM__SCHEME_STDIO, true},
    {"tcp://", IDEM__SCHEME_TCP, false},     {"tcp+lsp://", IDEM__SCHEME_TCP, true},
    {"unix:", IDEM__SCHEME_UNIX, false},     {"unix+lsp:", IDEM__SCHEME_UNIX, true},
    {"http://", IDEM__SCHEME_HTTP, false},   {"ws://", IDEM__SCHEME_WS, false},
    {"admin://", IDEM__SCHEME_ADMIN, false}, {"https://", IDEM__SCHEME_HTTP, false},
    {"wss://", IDEM__SCHEME_WS, false},      {"tls://", IDEM__SCHEME_TCP, false},
    {"tls+lsp://", IDEM__SCHEME_TCP, true},  {"exec:", IDEM__SCHEME_EXEC, false},
    {"exec+lsp:", IDEM__SCHEME_EXEC, true},
};

static bool parse_port(const char *text, uint16_t *port) {
  size_t len = strlen(text);
  if (len == 0 || len > 5 || strspn(text, "0123456789") != len) return false;
  unsigned long value = strtoul(text, NULL, 10);
  *port = (uint16_t)value;
  return value <= UINT16_MAX;
}

/* "host:port" or "[v6]:port"; a bare v6 address is refused, for its last group looks like a port. */
static idem_status parse_authority(const char *text, idem__url *url) {
  const char *host = text, *host_end, *port;
  if (*text == '[') {
    host = text + 1;
    host_end = strchr(host, ']');
    if (!host_end || host_end[1] != ':') return IDEM_E_INVAL;
    port = host_end + 2;
  } else {
    host_end = strchr(text, ':');
    if (!host_end) return IDEM_E_INVAL;
    port = host_end + 1;
  }
  size_t len = (size_t)(host_end - host);
  if (len == 0 || len >= sizeof url->host || !parse_port(port, &url->port)) return IDEM_E_INVAL;
  memcpy(url->host, host, len);
  url->host[len] = 0;
  return IDEM_OK;
}

static idem_status parse_path(const char *text, idem__url *url) {
  if (strncmp(text, "//", 2) == 0 && text[2] == '/') text += 2; /* unix:///path */
  size_t len = strlen(text);
  if (len == 0 || len >= sizeof url->path) return IDEM_E_INVAL;
  memcpy(url->path, text, len + 1);
  return IDEM_OK;
}

/* "host:port", then a path without query; "/" if there is none. */
static idem_status parse_web(const char *text, idem__url *url) {
  char authority[sizeof url->host + 16];
  size_t len = strcspn(text, "/"), path_len = strlen(text + len);
  if (len >= sizeof authority || path_len >= sizeof url->path || strpbrk(text, "?# "))
    return IDEM_E_INVAL;
  memcpy(authority, text, len);
  authority[len] = 0;
  memcpy(url->path, path_len ? text + len : "/", (path_len ? path_len : 1) + 1);
  return parse_authority(authority, url);
}

static bool is_web(idem__scheme scheme) {
  return scheme == IDEM__SCHEME_HTTP || scheme == IDEM__SCHEME_WS || scheme == IDEM__SCHEME_ADMIN;
}

IDEM__EARLY idem_status idem__url_parse(const char *text, idem__url *url) {
  *url = (idem__url){0};
  for (size_t i = 0; text && i < sizeof schemes / sizeof *schemes; i++) {
    size_t len = strlen(schemes[i].prefix);
    if (strncmp(text, schemes[i].prefix, len) != 0) continue;
    url->scheme = schemes[i].scheme;
    url->content_length = schemes[i].content_length;
    url->tls = strncmp(text, "https", 5) == 0 || strncmp(text, "wss", 3) == 0 ||
               strncmp(text, "tls", 3) == 0;
    if (is_web(url->scheme)) return parse_web(text + len, url);
    if (url->scheme == IDEM__SCHEME_TCP) return parse_authority(text + len, url);
    if (url->scheme == IDEM__SCHEME_UNIX) return parse_path(text + len, url);
    return text[len] ? IDEM_E_INVAL : IDEM_OK;
  }
  return IDEM_E_INVAL;
}

/* Printable and without blanks: nothing in it can end the line it stands in. */
static bool good_target(const char *text) {
  for (; *text; text++)
    if (*text <= ' ' || *text > '~' || *text == '#') return false;
  return true;
}

idem_status idem__url_parse_remote(const char *text, idem__url *url, const char **target) {
  *url = (idem__url){.scheme = IDEM__SCHEME_WS, .tls = strncmp(text, "wss://", 6) == 0};
  if (!url->tls && strncmp(text, "ws://", 5) != 0) return IDEM_E_INVAL;
  const char *from = text + (url->tls ? 6 : 5);
  char authority[sizeof url->host + 16];
  size_t len = strcspn(from, "/?#");
  if (len == 0 || len >= sizeof authority - 5 || !good_target(from)) return IDEM_E_INVAL;
  memcpy(authority, from, len);
  authority[len] = 0;
  if (strchr(authority, '@')) return IDEM_E_INVAL;
  bool v6 = authority[0] == '[';
  if (v6 ? authority[len - 1] == ']' : !strchr(authority, ':'))
    snprintf(authority + len, sizeof authority - len, ":%d", url->tls ? 443 : 80);
  *target = from + len;
  return parse_authority(authority, url);
}

static bool literal(const char *host, uint16_t port, idem__address *address) {
  struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&address->storage;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&address->storage;
  *address = (idem__address){0};
  if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    address->len = sizeof *v4;
  } else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    address->len = sizeof *v6;
  } else {
    return false;
  }
  idem__address_set_port(address, port);
  return true;
}

idem_status idem__address_literal(const idem__url *url, idem__address *list, size_t *count) {
  if (strcmp(url->host, "localhost") == 0) {
    literal("127.0.0.1", url->port, &list[0]);
    literal("::1", url->port, &list[1]);
    *count = 2;
    return IDEM_OK;
  }
  *count = 1;
  return literal(url->host, url->port, &list[0]) ? IDEM_OK : IDEM_E_NOTFOUND;
}

void idem__address_text(const idem__address *address, char *text, size_t size) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (address->storage.ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&address->storage;
    inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
    snprintf(text, size, "[%s]:%u", host, idem__address_port(address));
  } else {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&address->storage;
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
    snprintf(text, size, "%s:%u", host, idem__address_port(address));
  }
}

/* The port is at the same place for both families. */
uint16_t idem__address_port(const idem__address *address) {
  return ntohs(((const struct sockaddr_in *)(const void *)&address->storage)->sin_port);
}

void idem__address_set_port(idem__address *address, uint16_t port) {
  ((struct sockaddr_in *)(void *)&address->storage)->sin_port = htons(port);
}

idem__address idem__address_of_path(const char *path) {
  idem__address address = {.len = sizeof(struct sockaddr_un)};
  struct sockaddr_un *local = (struct sockaddr_un *)(void *)&address.storage;
  local->sun_family = AF_UNIX;
  strncpy(local->sun_path, path, sizeof local->sun_path - 1);
  return address;
}
