/* verify.h - public keys and what they have signed, for the module's table. */
#ifndef IDEM_MODULES_JOSE_VERIFY_H
#define IDEM_MODULES_JOSE_VERIFY_H

#include "../../auth/crypto.h"

extern const idem__crypto idem__jose_crypto;

#endif
