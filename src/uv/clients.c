/* clients.c - who may come over TCP, TLS and Unix sockets, how often they may ask, and how long they
 * may say nothing. HTTP has the same bounds in src/http; see docs/internals/uv.md. */
#include "uv/clients.h"

#include "mcp_http/mcp_http.h"

#include <netinet/in.h>
#include <string.h>

#define FIRST_MS 10000

struct idem__clients {
  const idem_listener *listener;
  idem__shares *shares;
  idem__limiter *limiter; /* NULL: no rate limit */
  idem__rates *rates;     /* where it is shared with other processes */
  idem__ip_block *proxies;
  size_t proxy_count;
  uint64_t first_ms;
};

/* ----------------------------------------------------------------- who it is */

idem__ip idem__address_ip(const idem__address *from) {
  idem__ip ip = {{0}};
  if (from->storage.ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&from->storage;
    memcpy(ip.bytes, &v6->sin6_addr, sizeof ip.bytes);
  } else {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&from->storage;
    memset(ip.bytes + 10, 0xff, 2);
    memcpy(ip.bytes + 12, &v4->sin_addr, 4);
  }
  return ip;
}

/* A user of this machine, in the bits that tell networks apart and where no client has its address. */
static idem__ip ip_of_user(int fd) {
  struct ucred who = {0};
  socklen_t len = sizeof who;
  idem__ip ip = {{0xff}};
  getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len);
  memcpy(ip.bytes + 4, &who.uid, sizeof who.uid);
  return ip;
}

static bool is_counted(const idem__clients *self, const idem__ip *who) {
  return self->listener->scheme == IDEM__SCHEME_TCP && !idem__ip_loopback(who) &&
         !idem__ip_in(self->proxies, self->proxy_count, who);
}

idem__client idem__clients_know(const idem__clients *self, int fd, const idem__address *from) {
  bool local = self->listener->scheme == IDEM__SCHEME_UNIX;
  idem__client client = {.ip = local ? ip_of_user(fd) : idem__address_ip(from)};
  client.counted = is_counted(self, &client.ip);
  return client;
}

/* ------------------------------------------------------------ how many, how often */

bool idem__clients_enter(idem__clients *self, const idem__client *client) {
  return !client->counted || idem__shares_take(self->shares, &client->ip);
}

void idem__clients_leave(idem__clients *self, const idem__client *client) {
  if (client->counted) idem__shares_give(self->shares, &client->ip);
}

bool idem__clients_limited(const idem__clients *self) { return self->limiter != NULL; }

bool idem__clients_admit(idem__clients *self, const idem__client *client) {
  uint32_t retry_s;
  return idem__limiter_take(self->limiter, &client->ip, idem__clock_ms(), &retry_s);
}

uint64_t idem__clients_first_ms(const idem__clients *self) { return self->first_ms; }

/* -------------------------------------------------------------------- opening */

static idem_status read_proxies(idem__clients *self, const char *const *texts) {
  size_t count = 0;
  while (texts && texts[count]) count++;
  if (!count) return IDEM_OK;
  self->proxies = idem__calloc(&self->listener->runtime->alloc, count * sizeof *self->proxies);
  if (!self->proxies) return IDEM_E_NOMEM;
  for (; self->proxy_count < count; self->proxy_count++) {
    const char *text = texts[self->proxy_count];
    idem__view view = {text, strlen(text)};
    if (!idem__ip_block_parse(view, &self->proxies[self->proxy_count])) return IDEM_E_INVAL;
  }
  return IDEM_OK;
}

static idem_status fill(idem__clients *self) {
  const idem_serve_opts *opts = &self->listener->opts;
  const idem_alloc *alloc = &self->listener->runtime->alloc;
  const idem_http_opts *http = opts->http;
  self->first_ms = http && http->first_ms ? http->first_ms : FIRST_MS;
  idem_status status =
      idem__shares_new(alloc, opts->client_connections, idem_random_seed(), &self->shares);
  if (status != IDEM_OK || !http) return status;
  status = read_proxies(self, http->trusted_proxies);
  if (status != IDEM_OK || !http->rate_count) return status;
  idem__rate rate = {"socket", http->rate_count, http->rate_seconds ? http->rate_seconds : 1};
  status = idem__limiter_new(alloc, rate.count, rate.seconds, http->rate_clients,
                             idem_random_seed(), &self->limiter);
  if (status != IDEM_OK || !opts->server) return status;
  return idem__rates_share(opts->server, &rate, self->limiter, &self->rates);
}

idem_status idem__clients_new(const idem_listener *listener, idem__clients **out) {
  idem__clients *self = idem__calloc(&listener->runtime->alloc, sizeof *self);
  *out = self;
  if (!self) return IDEM_E_NOMEM;
  self->listener = listener;
  return fill(self);
}

void idem__clients_free(idem__clients *self) {
  if (!self) return;
  const idem_alloc *alloc = &self->listener->runtime->alloc;
  idem__shares_free(self->shares);
  idem__rates_end(self->rates);
  idem__limiter_free(self->limiter);
  idem__free(alloc, self->proxies);
  idem__free(alloc, self);
}
