/* client_identity.c - see client_identity.h. Names and addresses are kept apart by what they are compared with first. */
#include "client_identity.h"

#include "mcp_server.h"

#include <string.h>

idem__client_identity idem__client_identity_of(const idem_request *request) {
  static const char by_name, by_address;
  const char *principal = idem_principal(request);
  const idem_conn *conn = idem_request_conn(request);
  const idem__mcp_peer *peer = idem__mcp_peer_of(conn);
  const void *address = conn ? idem__conn_client(conn) : NULL;
  if (*principal) return (idem__client_identity){&by_name, principal, strlen(principal)};
  if (peer && peer->session) return (idem__client_identity){.thing = peer->session, .bytes = ""};
  if (address) return (idem__client_identity){&by_address, address, IDEM__CLIENT_BYTES};
  return (idem__client_identity){.thing = conn, .bytes = ""};
}
