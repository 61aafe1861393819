/* proofs.h - what the guards of one process remember together of proofs (RFC 9449): those that were shown to one loop or listener are
 * known to each other of the same resource. See docs/internals/auth.md. */
#ifndef IDEM_UV_PROOFS_H
#define IDEM_UV_PROOFS_H

#include "auth/proof.h"

typedef struct idem__proofs idem__proofs;
/* Bytes of those that are remembered: IDEM__REPLAY_BYTES; tests have less time. */
extern size_t idem__proofs_most;
/* Counted. `longest_s`: no proof is taken for longer. SYS: there are no random numbers; NOMEM. */
idem_status idem__proofs_get(const idem_alloc *alloc, const char *resource, uint64_t longest_s,
                             idem__proofs **out);
void idem__proofs_release(idem__proofs *proofs); /* takes NULL */
/* From any thread. */
idem__replay idem__proofs_add(idem__proofs *proofs, const uint8_t number[IDEM_SHA256_BYTES],
                              const char *owner, uint64_t now_s, uint64_t ends_s);
size_t idem__proofs_bytes(idem__proofs *proofs); /* that they take now */
/* What nonces are sealed with; lent. */
const uint8_t *idem__proofs_nonce_key(const idem__proofs *proofs);

#endif
