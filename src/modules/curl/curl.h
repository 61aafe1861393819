/* curl.h - what the curl module offers: HTTP requests by libcurl, without a loop of its own.
 * The runtime (src/uv/fetch.c) loads the module with the first request; nobody else pays for
 * libcurl. Everything of one set belongs to one thread. See docs/internals/modules.md. */
#ifndef IDEM_MODULES_CURL_H
#define IDEM_MODULES_CURL_H

#include "../../base/base.h"

#define IDEM__CURL_SYMBOL "idem__curl_module_table"

typedef struct idem__curl idem__curl; /* transfers of one loop, and the connections they reuse */
typedef struct idem__curl_transfer idem__curl_transfer;

/* What a set asks of its loop. Both may be called from inside any function of the module. */
typedef struct idem__curl_host {
  /* From now on call `ready` when the socket can be read or written; neither: no more, and the
   * socket is about to be closed or kept for later. *mark is the host's, NULL at first. */
  void (*watch)(void *user, int socket, bool read, bool write, void **mark);
  /* Call `tick` once after this time; negative: not any more. Replaces what was asked before. At once is the
   * loop's next turn, after its other timers and sockets: what one turn may read is bounded so. */
  void (*set_timer)(void *user, long after_ms);
  void *user;
} idem__curl_host;

/* One request; all of it is copied. Callbacks may start and cancel transfers, the own one too, but not close the set. */
typedef struct idem__curl_request {
  const char *method;
  const char *url;
  const char *const *headers; /* "Name: value", checked by the caller; ends with NULL */
  const char *body;           /* NULL: none */
  size_t body_len;
  bool
      may_repeat; /* where a kept connection breaks before an answer; GET, HEAD and OPTIONS always may */
  uint64_t connect_ms; /* 0: no limit */
  uint64_t total_ms;   /* 0: no limit */
  const char *proxy;   /* NULL: as the environment says; "": none */
  const char *ca_file; /* NULL: the system's */
  const char *cert_file, *key_file;
  bool no_verify; /* any certificate will do */
  /* May a connection be made to these 4 or 16 bytes (a proxy's, where there is one)? NULL: to any; else none that was
   * kept is used. */
  bool (*may_connect)(void *user, const uint8_t *address, size_t len);
  /* A status line has come; headers of an earlier one (1xx) are void. False ends the transfer. */
  bool (*on_status)(void *user, int status);
  /* `value` is trimmed; neither ends with NUL. */
  bool (*on_header)(void *user, const char *name, size_t name_len, const char *value,
                    size_t value_len);
  /* The head is complete (never for a 1xx). */
  bool (*on_head)(void *user);
  bool (*on_body)(void *user, const char *data, size_t len);
  /* Once, unless the transfer was cancelled; it is gone then. CANCELLED: a callback said false.
   * TIMEOUT; CLOSED: the connection broke, and the request may have been carried out; PROTO: what came was not HTTP;
   * SYS: there is no connection (name, address, certificate), so nothing was sent; NOMEM. `why` is libcurl's sentence. */
  void (*on_end)(void *user, idem_status status, const char *why);
  void *user;
} idem__curl_request;

typedef struct idem__curl_module {
  idem_status (*open)(const idem__curl_host *host, idem__curl **out); /* NOMEM */
  /* After its transfers have ended; closes the connections it kept. */
  void (*close)(idem__curl *set);
  void (*ready)(idem__curl *set, int socket, bool read, bool write, bool failed);
  void (*tick)(idem__curl *set);
  /* Looks at every socket: for a host that cannot watch one of them. */
  void (*drive)(idem__curl *set);
  /* NOMEM; INVAL: libcurl does not take one of its texts (longer than 8 MB, say). No callback runs before it returns. */
  idem_status (*start)(idem__curl *set, const idem__curl_request *request,
                       idem__curl_transfer **out);
  /* No callback of it runs any more. */
  void (*cancel)(idem__curl_transfer *transfer);
  /* While held no body arrives, and the server's writes stall. */
  void (*hold)(idem__curl_transfer *transfer, bool held);
  /* Where `reference` leads from `base` (NULL: it stands alone), by the parser that connects; freed
   * with `free_text`. INVAL: not http or https, or with a user in it. */
  idem_status (*resolve)(const char *base, const char *reference, char **out, bool *same_origin);
  void (*free_text)(char *text);
} idem__curl_module;

#endif
