/* checks.h - who may ask, and how often: hosts, origins, tokens, addresses, rates, shares of connections.
 * See docs/internals/http.md. */
#ifndef IDEM_HTTP_CHECKS_H
#define IDEM_HTTP_CHECKS_H

#include "view.h"

#include <idem/http.h>

typedef struct idem__limiter idem__limiter;

/* One entry of a host or origin list. */
typedef struct idem__host_rule {
  char *scheme; /* of an origin; NULL: http or https */
  char *host;   /* lower case, no trailing dot; "[::1]" keeps its brackets */
  int port;     /* -1: any; 0: the listener's or none */
} idem__host_rule;
typedef struct idem__host_list {
  idem__host_rule *rules;
  size_t count;
} idem__host_list;

/* NULL list: the loopback names on any port. INVAL for an entry that is no host. */
idem_status idem__host_list_init(idem__host_list *list, const idem_alloc *alloc,
                                 const char *const *entries);
/* More of them. On failure the list is still to be deinitialized. */
idem_status idem__host_list_add(idem__host_list *list, const idem_alloc *alloc,
                                const char *const *entries);
void idem__host_list_deinit(idem__host_list *list, const idem_alloc *alloc);
/* `authority` is host, host:port or [v6]:port as a peer wrote it. */
bool idem__host_allowed(const idem__host_list *list, idem__view authority, int listener_port);
/* `origin` is an Origin header's value; `null` is never allowed. */
bool idem__origin_allowed(const idem__host_list *list, idem__view origin, int listener_port);
bool idem__web_scheme(idem__view scheme); /* http or https */
/* Bearer tokens, any of which opens. */
typedef struct idem__token_list {
  char **texts;
  size_t *lens;
  size_t count;
} idem__token_list;
/* NULL list: none. They become secrets of the log. INVAL: an empty list, which would open to nobody, or an empty token. */
idem_status idem__token_list_init(idem__token_list *list, const idem_alloc *alloc,
                                  const char *const *tokens, idem_log *log);
void idem__token_list_deinit(idem__token_list *list, const idem_alloc *alloc);
/* Any of the tokens, in a time that depends on the lengths alone. */
bool idem__token_allowed(const idem__token_list *list, idem__view authorization);

/* An address: IPv4 is kept as ::ffff:a.b.c.d. */
typedef struct idem__ip {
  uint8_t bytes[16];
} idem__ip;
bool idem__ip_parse(idem__view text, idem__ip *address); /* also "[v6]", no port */
/* What tells clients apart: an IPv6 client owns a /64 at least, so that is one. */
idem__ip idem__ip_client(const idem__ip *who);
bool idem__ip_loopback(const idem__ip *who);
#define IDEM__IP_TEXT 40
void idem__ip_text(const idem__ip *address, char text[IDEM__IP_TEXT]);
typedef struct idem__ip_block {
  idem__ip address;
  unsigned bits;
} idem__ip_block;
bool idem__ip_block_parse(idem__view text, idem__ip_block *block);
bool idem__ip_in(const idem__ip_block *blocks, size_t count, const idem__ip *who);
/* Who may say for whom it asks, and in which header: "Forwarded" in its own form, any other as a
 * list of addresses. A second header that a proxy does not write would be the client's word. */
typedef struct idem__proxies {
  idem__ip_block *blocks;
  size_t count;
  char *header;
} idem__proxies;
/* Who asks: the peer, or, where the peer is a trusted proxy, the last address in the header that is
 * not one. */
idem__ip idem__client_address(const idem_http_request *request, const idem__ip *peer,
                              const idem__proxies *proxies);

/* Token buckets by client. May be shared by threads. Holds `clients` buckets and forgets the
 * fullest of a few when it needs room. */
idem_status idem__limiter_new(const idem_alloc *alloc, uint32_t count, uint32_t seconds,
                              size_t clients, uint64_t seed, idem__limiter **out);
void idem__limiter_free(idem__limiter *limiter);
/* Takes one token. False: *retry_s says in how many whole seconds (at least 1) there is one. */
bool idem__limiter_take(idem__limiter *limiter, const idem__ip *who, uint64_t now_ms,
                        uint32_t *retry_s);

/* Others have the same limit: what a client took here is reported a block at a time (an eighth of what it may take), on
 * the thread that took the last of it and without a lock. Before it is used. The answer comes to one of the two below, from
 * any thread; until then the client's next block waits to be reported. */
typedef void (*idem__limiter_report)(void *user, const idem__ip *who, uint32_t taken);
typedef size_t (*idem__limiter_others)(void *user); /* how many there are; with a lock held */
void idem__limiter_share(idem__limiter *limiter, idem__limiter_report report,
                         idem__limiter_others others, void *user);
/* What all together had taken before this block of its own. */
void idem__limiter_heard(idem__limiter *limiter, const idem__ip *who, uint64_t before,
                         uint32_t own);
/* Nobody knows: so many others are taken to take as much as this one. */
void idem__limiter_unheard(idem__limiter *limiter, const idem__ip *who, uint32_t own,
                           size_t others);

/* Connections by client: `most` each. May be shared by threads. */
typedef struct idem__shares idem__shares;
idem_status idem__shares_new(const idem_alloc *alloc, size_t most, uint64_t seed,
                             idem__shares **out);
void idem__shares_free(idem__shares *shares);
/* False: it has its share, or there is no memory. What was taken is given back. */
bool idem__shares_take(idem__shares *shares, const idem__ip *who);
void idem__shares_give(idem__shares *shares, const idem__ip *who);

#endif
