/* version.c - what this library is called and how its statuses read.
 * Kept apart so that a release changes one constant and a new status one row.
 * See docs/internals/base.md. */
#include "base.h"

const char *idem_version(void) { return IDEM_VERSION; }

const char *idem_status_text(idem_status status) {
  switch (status) {
  case IDEM_OK: return "ok";
  case IDEM_E_NOMEM: return "no memory";
  case IDEM_E_INVAL: return "invalid argument";
  case IDEM_E_STATE: return "wrong moment for this call";
  case IDEM_E_LIMIT: return "limit reached";
  case IDEM_E_PROTO: return "protocol broken by the peer";
  case IDEM_E_CLOSED: return "closed";
  case IDEM_E_TIMEOUT: return "timed out";
  case IDEM_E_CANCELLED: return "cancelled";
  case IDEM_E_NOTFOUND: return "not found";
  case IDEM_E_EXISTS: return "exists already";
  case IDEM_E_REMOTE: return "the peer answered with an error";
  case IDEM_E_SYS: return "refused by the operating system";
  }
  return "unknown status";
}
