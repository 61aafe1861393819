/* once_key.h - calls that happen once, as both roles say it: where a key stands in a message, what it looks like, and the words
 * around it. See docs/guide/once.md. */
#ifndef IDEM_MCP_ONCE_KEY_H
#define IDEM_MCP_ONCE_KEY_H

#include <stdbool.h>
#include <stddef.h>

/* In _meta of a call: its key; that it is a repetition, of a call that was asked of the store with this name; for how long
 * its client may come back, where that is less than the server keeps keys. */
#define IDEM__ONCE_META "idem/key"
#define IDEM__ONCE_REPEAT "idem/repeat"
#define IDEM__ONCE_KEY_MS "idem/keyMs"
/* In _meta of a result that was given before. */
#define IDEM__ONCE_REPLAYED "idem/replayed"
/* Under experimental: {keyMs, store}. */
#define IDEM__ONCE_CAPABILITY "idem/once"
/* A client gives a call up: {name, _meta: {idem/key}}. */
#define IDEM__ONCE_CANCELLED "notifications/idem/cancelled"

#define IDEM__ONCE_KEY_MAX 255u
#define IDEM__ONCE_STORE_ID 32u /* characters that name a store */

/* 1 to 255 visible ASCII characters. */
bool idem__once_is_key(const char *text, size_t len);

#endif
