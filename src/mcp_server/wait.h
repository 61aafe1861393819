/* wait.h - a request that waits: something must be known before it goes on, and whoever knows it says so now
 * or later. Meanwhile it is kept like any other, and cancelled with its client. */
#ifndef IDEM_MCP_WAIT_H
#define IDEM_MCP_WAIT_H

#include "nouns.h"

typedef struct idem__wait idem__wait;
typedef void (*idem__wait_fn)(idem__context *context, idem_status status, void *user);

/* NULL: no memory, and the request was dropped. Then: ask, with the wait for idem__wait_end, and say
 * idem__wait_keep. `go_on` is called by the end, unless the request was cancelled before; `user` is lent
 * as long as the request is. */
idem__wait *idem__wait_begin(idem__context *context, idem__wait_fn go_on, void *user);
void idem__wait_keep(idem__wait *wait);
/* Exactly once, whether anybody still waits or not; an idem__edge_done. */
void idem__wait_end(idem_status status, void *user);
idem__context *idem__wait_context(const idem__wait *wait); /* NULL: nobody waits any more */

/* Nobody knows whether it happened. */
static inline bool idem__is_unknown(idem_status status) {
  return status == IDEM_E_TIMEOUT || status == IDEM_E_SYS || status == IDEM_E_CLOSED;
}

#endif
