/* client_identity.h - who asks, for those who share something out among clients.
 * Knows principals and sessions, and what a transport says where it has a connection a request. */
#ifndef IDEM_MCP_CLIENT_IDENTITY_H
#define IDEM_MCP_CLIENT_IDENTITY_H

#include <idem/mcp.h>

/* Two askers are the same client when `thing`, `len` and `bytes` are. */
typedef struct idem__client_identity {
  const void *thing; /* a session or a connection; only ever compared */
  const void *bytes; /* a principal's name or an address; lent as long as the request */
  size_t len;
} idem__client_identity;

/* A principal whose name was checked; without one a session, which several connections may share; without that the
 * connection, or over HTTP, where each request has its own, the address it came from: behind a trusted
 * proxy the one that the proxy names. For requests of any profile. */
idem__client_identity idem__client_identity_of(const idem_request *request);

#endif
