/* tls.h - what the TLS module offers: encryption as a filter over bytes, without I/O.
 * The runtime loads the module when the first https or wss address is served or called; nobody else
 * pays for OpenSSL. All functions of one context may be called from several threads, those of one
 * session from one at a time. See docs/internals/modules.md. */
#ifndef IDEM_MODULES_TLS_H
#define IDEM_MODULES_TLS_H

#include "../../base/base.h"

#define IDEM__TLS_SYMBOL "idem__tls_module_table"

typedef struct idem__tls_opts {
  const char *cert_file; /* PEM, the whole chain; a server needs it */
  const char *key_file;  /* PEM */
  const char *ca_file;   /* PEM: whom to trust. A server then asks for client certificates; for a
                            client NULL means the system's authorities */
  bool no_verify;        /* client: any certificate will do */
  bool http;             /* client: says so in ALPN */
} idem__tls_opts;

typedef struct idem__tls_context idem__tls_context;
typedef struct idem__tls_session idem__tls_session;

typedef struct idem__tls_module {
  /* INVAL: a file is missing or not what it should be; `why` (of `size` bytes) then says so. */
  idem_status (*server_new)(const idem__tls_opts *opts, idem__tls_context **out, char *why,
                            size_t size);
  idem_status (*client_new)(const idem__tls_opts *opts, idem__tls_context **out, char *why,
                            size_t size);
  void (*context_free)(idem__tls_context *context); /* sessions may outlive it */
  idem_status (*accept)(idem__tls_context *context, idem__tls_session **out);
  /* The server must prove to be `host`, a name or an address. The handshake begins with `read`. */
  idem_status (*connect)(idem__tls_context *context, const char *host, idem__tls_session **out);
  void (*session_free)(idem__tls_session *session);

  /* Bytes from the wire go in ... */
  idem_status (*feed)(idem__tls_session *session, const char *data, size_t len);
  /* ... and come out decrypted: how many; 0: none for now; -1: the peer has closed; -2: it broke the
   * protocol, or its certificate is not wanted. The handshake is part of it. */
  long (*read)(idem__tls_session *session, char *into, size_t size);
  /* All of it is taken, or it fails. STATE: the handshake has not finished. */
  idem_status (*write)(idem__tls_session *session, const char *data, size_t len);
  /* Says goodbye to the peer. */
  void (*close)(idem__tls_session *session);
  /* Bytes for the wire: how many; 0: none for now. */
  size_t (*take)(idem__tls_session *session, char *into, size_t size);
  bool (*ready)(const idem__tls_session *session); /* the handshake has finished */
  /* What was wrong with the peer's certificate, or "" */
  const char *(*fault)(const idem__tls_session *session);
} idem__tls_module;

#endif
