/* callback.h - where a browser comes back to: a page on 127.0.0.1 that takes one answer and says that it can be closed. */
#ifndef IDEM_CLI_CALL_CALLBACK_H
#define IDEM_CLI_CALL_CALLBACK_H

#include <idem/base.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

typedef struct callback callback;

/* A browser asked for the page with this query, which the function judges: whether it is the answer that is waited for. The page
 * says so; `took` follows for one that is. */
typedef struct callback_hooks {
  bool (*is_answer)(const char *query, size_t len, void *user);
  void (*took)(const char *query, size_t len, void *user);
  void *user;
} callback_hooks;

/* Listens: `wanted` is a redirect URI of http on loopback whose port is free ("http://127.0.0.1:8123/callback"); NULL: any
 * port of 127.0.0.1. NULL: it cannot; the log knows why. */
callback *callback_start(uv_loop_t *loop, const char *wanted, const callback_hooks *hooks,
                         idem_log *log);
/* The redirect URI, with its port. */
const char *callback_uri(const callback *self);
/* Lets the last page go out, and is gone. Takes NULL. */
void callback_stop(callback *self);
/* Whether it is a URI that somebody can listen at here. */
bool callback_fits(const char *uri);

/* The value of a name in a query, decoded, with its NUL; false: absent, there twice, or longer than `size`. */
bool callback_value(const char *query, size_t len, const char *name, char *out, size_t size);

#endif
