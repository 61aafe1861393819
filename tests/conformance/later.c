/* later.c - makes every server of the program it is linked into (--wrap=idem_server_new) use a store that
 * answers later, from a thread of its own and in odd orders. */
#include "mcp_server/mcp_server.h"
#include "support/later_store.h"

#include <stdlib.h>

idem_status __real_idem_server_new(const idem_server_opts *opts, idem_server **out);
idem_status __wrap_idem_server_new(const idem_server_opts *opts, idem_server **out);

idem_status __wrap_idem_server_new(const idem_server_opts *opts, idem_server **out) {
  const char *seed = getenv("IDEM_LATER_STORE");
  later_store_opts later = {.seed = seed ? strtoull(seed, NULL, 10) : 1, .threaded = true};
  idem_status status = __real_idem_server_new(opts, out);
  if (status != IDEM_OK) return status;
  idem__store *store = later_store_new(idem__store_ref((*out)->store), &later);
  status = store ? idem__server_use_store(*out, store) : IDEM_E_NOMEM;
  idem__store_unref(store); /* the server's alone */
  return status;
}
