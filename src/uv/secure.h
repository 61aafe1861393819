/* secure.h - TLS between a socket and a peer: what socket.c asks of secure.c. */
#ifndef IDEM_UV_SECURE_H
#define IDEM_UV_SECURE_H

#include "modules/tls/tls.h"
#include "uv/runtime.h"

typedef struct idem__secure idem__secure;

/* Takes the session, also when it fails. */
idem_status idem__secure_new(const idem_alloc *alloc, const idem__tls_module *module,
                             idem__tls_session *session, idem__secure **out);
/* What is sent, as it is, to who begins with HTTP and not with TLS; lent for as long as it lives. */
void idem__secure_set_plain(idem__secure *secure, const char *text, size_t len);
/* A client's first words. */
void idem__secure_begin(idem__secure *secure, int fd);
void idem__secure_free(idem__secure *secure); /* takes NULL */
/* As a wire's read and write. The handshake is part of both. */
ssize_t idem__secure_read(idem__secure *secure, int fd, char *into, size_t size);
ssize_t idem__secure_write(idem__secure *secure, int fd, const struct iovec *pieces, int count);
/* Sends what waits; false: the socket is lost. */
bool idem__secure_flush(idem__secure *secure, int fd);
bool idem__secure_ready(const idem__secure *secure);  /* the handshake has finished */
bool idem__secure_unsent(const idem__secure *secure); /* bytes wait for the socket */
/* Says goodbye, and shuts the socket down once that is sent. */
bool idem__secure_end(idem__secure *secure, int fd);
/* What was wrong with the other side's certificate, or "". */
const char *idem__secure_fault(const idem__secure *secure);

#endif
