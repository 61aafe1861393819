/* login.c - tokens without a person: the suite's authorization servers let everybody in, so that a browser is a GET whose
 * redirect is looked at and not followed. Blocking is fine here: the servers are another process. */
#include "login.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DOCUMENT "https://conformance-test.local/client-metadata.json"

bool login_wanted(const plan *self) { return strncmp(self->scenario, "auth/", 5) == 0; }

/* ------------------------------------------------------------------- the browser */

static int connect_to(const char *host, const char *port) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
  int fd = -1;
  if (getaddrinfo(host, port, &hints, &list) != 0) return -1;
  for (const struct addrinfo *each = list; each && fd < 0; each = each->ai_next) {
    fd = socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (fd >= 0 && connect(fd, each->ai_addr, each->ai_addrlen) != 0) {
      close(fd);
      fd = -1;
    }
  }
  freeaddrinfo(list);
  return fd;
}

static bool get(const char *page, char *answer, size_t size) {
  char host[128], port[16], request[8192];
  const char *path = page + strcspn(page + 7, "/?") + 7;
  if (sscanf(page, "http://%127[^:/]:%15[0-9]", host, port) != 2) return false;
  int len =
      snprintf(request, sizeof request,
               "GET %s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n", path, host, port);
  int fd = len < (int)sizeof request ? connect_to(host, port) : -1;
  if (fd < 0) return false;
  size_t got = 0;
  ssize_t n = send(fd, request, (size_t)len, MSG_NOSIGNAL);
  while (n > 0 && got + 1 < size && (n = recv(fd, answer + got, size - 1 - got, 0)) > 0)
    got += (size_t)n;
  answer[got] = 0;
  close(fd);
  return got > 0;
}

static void on_page(idem_auth *auth, const char *page, const char *user_code, void *user) {
  const plan *self = user;
  char answer[16384];
  (void)user_code;
  const char *location =
      get(page, answer, sizeof answer) ? strcasestr(answer, "\nlocation:") : NULL;
  const char *query = location ? location + strcspn(location, "?\r") : NULL;
  if (!query || *query != '?') {
    fprintf(stderr, "%s: the page %s leads nowhere\n", self->scenario, page);
    query = "?";
  }
  idem_auth_redirected(auth, query + 1, strcspn(query + 1, "#\r\n "));
}

/* ------------------------------------------------------------------------ options */

static const char *context(const plan *self, const char *name) {
  return yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(self->context), name));
}

static idem_auth_grant grant_of(const char *scenario) {
  if (strstr(scenario, "client-credentials")) return IDEM_AUTH_CLIENT_CREDENTIALS;
  if (strstr(scenario, "enterprise-managed")) return IDEM_AUTH_ENTERPRISE;
  return strstr(scenario, "wif-jwt") ? IDEM_AUTH_JWT_BEARER : IDEM_AUTH_CODE;
}

idem_status login_new(plan *self, uv_loop_t *loop, const char *url) {
  idem_auth_grant grant = grant_of(self->scenario);
  bool bearer = grant == IDEM_AUTH_JWT_BEARER;
  idem_auth_opts opts = {.url = url,
                         .grant = grant,
                         .client_id = bearer ? NULL : context(self, "client_id"),
                         .client_secret = context(self, "client_secret"),
                         .private_key = context(self, "private_key_pem"),
                         .client_document = DOCUMENT,
                         .redirect_uri = "http://localhost:3000/callback",
                         .refresh = true,
                         .assertion = context(self, bearer ? "valid_jwt" : "idp_id_token"),
                         .idp_token_endpoint = context(self, "idp_token_endpoint"),
                         .idp_client_id = context(self, "idp_client_id"),
                         .on_page = on_page,
                         .user = self};
  return idem_auth_new(loop, &opts, &self->auth);
}

void login_on_refused(idem_mcp_client *client, idem_mcp_refusal *refusal, void *user) {
  const plan *self = user;
  (void)client;
  idem_auth_refused(self->auth, refusal);
}

void login_on_sending(idem_mcp_client *client, idem_mcp_sending *sending, void *user) {
  const plan *self = user;
  (void)client;
  if (self->auth) idem_auth_sending(self->auth, sending);
}

void login_on_answered(idem_mcp_client *client, const idem_mcp_answered *answered, void *user) {
  const plan *self = user;
  (void)client;
  if (self->auth) idem_auth_answered(self->auth, answered);
}
