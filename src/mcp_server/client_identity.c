/* client_identity.c - see client_identity.h. Names and addresses are kept apart by what they are compared with first. */
#include <idem/mcp.h>

#include "mcp_server.h"

#include <string.h>

/* Programs of this machine, or a proxy that names nobody: there sessions tell more than the address. No
 * address begins with 0xff: so are users of a Unix socket named (src/uv/clients.c). */
static bool is_this_machine(const unsigned char *address) {
  static const unsigned char four[12] = {[10] = 0xff, [11] = 0xff}, six[16] = {[15] = 1};
  return (memcmp(address, four, sizeof four) == 0 && address[12] == 127) ||
         memcmp(address, six, sizeof six) == 0 || address[0] == 0xff;
}

idem_client_identity idem_request_client(const idem_request *request) {
  static const char by_name, by_address;
  const char *principal = idem_principal(request);
  const idem_conn *conn = idem_request_conn(request);
  const idem__mcp_peer *peer = idem__mcp_peer_of(conn);
  const void *lent = conn ? idem__conn_client(conn) : NULL;
  const void *address = conn ? idem__conn_address(conn) : NULL;
  bool claimed = peer && peer->principal_claimed;
  if (*principal && !claimed) return (idem_client_identity){&by_name, principal, strlen(principal)};
  /* Sessions cost nothing: one address would be as many clients as it likes. */
  if (address && !is_this_machine(address))
    return (idem_client_identity){&by_address, address, IDEM__CLIENT_BYTES};
  if (peer && peer->session) return (idem_client_identity){.thing = peer->session, .bytes = ""};
  if (lent) return (idem_client_identity){&by_address, lent, IDEM__CLIENT_BYTES};
  return (idem_client_identity){.thing = conn, .bytes = ""};
}
