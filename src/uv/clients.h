/* clients.h - the bounds that one client of a TCP, TLS or Unix listener has. */
#ifndef IDEM_UV_CLIENTS_H
#define IDEM_UV_CLIENTS_H

#include "http/http.h"
#include "uv/runtime.h"

idem__ip idem__address_ip(const idem__address *from);

/* As its options say. Freed with idem__clients_free, also when it failed: NOMEM; INVAL: a trusted
 * proxy is no address. */
idem_status idem__clients_new(const idem_listener *listener, idem__clients **out);
void idem__clients_free(idem__clients *self);
/* By its address, or over a Unix socket by its user. */
idem__client idem__clients_know(const idem__clients *self, int fd, const idem__address *from);
/* False: it has its share of connections. What enters leaves. */
bool idem__clients_enter(idem__clients *self, const idem__client *client);
/* How long who has come may say nothing. */
uint64_t idem__clients_first_ms(const idem__clients *self);

#endif
