/* idem/fetch.h - one HTTP request and its answer, on a loop, by the curl module.
 * For whoever needs an answer from somewhere (a tool that calls an HTTP service). The module and libcurl are loaded with the first request of the process;
 * connections are kept and used again by later requests of the same loop, until nothing of idem is
 * left on it.
 *
 *   static void on_answer(const idem_fetch_answer *answer, void *user) {
 *     if (answer->status != IDEM_OK) say(answer->why);
 *     else use(answer->http_status, answer->body, answer->body_len);
 *   }
 *   idem_fetch_opts opts = {.url = "https://example.org/x", .total_ms = 5000, .log = log};
 *   status = idem_fetch_start(loop, &opts, on_answer, user, &fetch);
 *
 * Everything happens on the loop's thread. */
#ifndef IDEM_FETCH_H
#define IDEM_FETCH_H

#include <idem/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uv_loop_s uv_loop_t;

typedef struct idem_fetch idem_fetch; /* a request under way */

/* Where a redirect (301, 302, 303, 307, 308 with a Location) may lead. An origin is scheme, host and
 * port. 307 and 308 keep method and body; the others become GET, unless it was HEAD. */
typedef enum idem_redirects {
  IDEM_REDIRECTS_SAME_ORIGIN = 0, /* elsewhere: the fetch ends with PROTO */
  IDEM_REDIRECTS_NONE = 1,        /* the redirect is the answer */
  IDEM_REDIRECTS_STRIPPED = 2     /* anywhere but from https to http; of the headers only Accept and
                                      Content-Type go to another origin, nor come they back */
} idem_redirects;

typedef struct idem_fetch_answer {
  /* OK: an answer came, whatever its HTTP status. TIMEOUT; LIMIT: too large;
   * SYS: no connection (name, address, certificate), nothing was sent; CLOSED: it broke before the
   * end, and what was asked may have been done; PROTO: not HTTP, or a redirect that may not be followed; NOMEM. */
  idem_status status;
  const char *why;  /* a sentence, "" when OK. May name hosts and files, never headers */
  int http_status;  /* 0: none came */
  const char *url;  /* the last one asked, after redirects */
  const char *head; /* private: see idem_fetch_header */
  size_t head_len;
  const char *body; /* never NULL; ends with a NUL that is not counted. "" when it was streamed */
  size_t body_len;
} idem_fetch_answer;

/* Runs once, never from inside idem_fetch_start, and not at all once the fetch was cancelled. The
 * answer is lent until it returns; the fetch is gone then. */
typedef void (*idem_fetch_fn)(const idem_fetch_answer *answer, void *user);

/* Everything is copied. Zero means the default. */
typedef struct idem_fetch_opts {
  const char *method;         /* a token, as it is sent; NULL: GET */
  const char *url;            /* http:// or https://, without user and password */
  const char *const *headers; /* "Name: value"; ends with NULL. Not for those that frame a message
                                 (Content-Length, Transfer-Encoding, Connection, Upgrade, TE,
                                 Trailer, Expect). An answer is never compressed unless you ask */
  const char *body;           /* NULL: none */
  size_t body_len;
  bool
      may_repeat; /* it changes nothing: where a kept connection breaks before an answer, it is sent once more on a
                          new one. GET, HEAD and OPTIONS always may; everything else is sent once */
  size_t max_bytes;    /* of the answer's body; 0: 10,485,760 */
  uint64_t connect_ms; /* until there is a connection, TLS included; 0: 10,000 */
  uint64_t total_ms;   /* for everything, redirects included; 0: 60,000; UINT64_MAX: no limit */
  uint64_t idle_ms;    /* between two pieces of the answer, and before the first; 0: no limit */
  idem_redirects redirects;
  unsigned max_redirects; /* 0: 5 */
  bool keep_method;       /* only redirects that keep the method are followed; others are answers */
  const char *proxy;      /* "http://host:port"; NULL: http_proxy, https_proxy, all_proxy of the
                             environment; "": none. no_proxy of the environment holds for both */
  const char *ca_file;    /* PEM: whom to trust; NULL: the system's authorities */
  const char *cert_file;  /* PEM: a client certificate, and its key */
  const char *key_file;
  bool no_verify; /* any certificate, of anybody: for experiments */
  /* May a connection be made to these 4 or 16 bytes (a proxy's, where there is one)? NULL: to any; else none that was
   * kept is used. Not: the fetch ends with SYS */
  bool (*may_connect)(const uint8_t *address, size_t len, void *user);
  idem_log *log; /* told when the module cannot be loaded */
  const idem_alloc *alloc;
  /* For streams; both or neither. on_head: status, url and head of the answer are known; true: the
   * body goes to on_data as it comes, without max_bytes; false: it is collected as usual. Both may
   * cancel. on_data false: the fetch ends with CANCELLED. */
  bool (*on_head)(const idem_fetch_answer *answer, void *user);
  bool (*on_data)(const char *data, size_t len, void *user);
} idem_fetch_opts;

/* NOMEM; INVAL: not such a URL, method, header or name of a file; SYS: the module is missing (logged). `out` may be
 * NULL for what is never cancelled. */
IDEM_API idem_status idem_fetch_start(uv_loop_t *loop, const idem_fetch_opts *opts,
                                      idem_fetch_fn fn, void *user, idem_fetch **out);
/* What start would say of URL and headers, now. */
IDEM_API idem_status idem_fetch_check(uv_loop_t *loop, const char *url, const char *const *headers,
                                      idem_log *log);
/* Ends it at once: no callback runs any more. Takes NULL. Allowed in its callbacks but the last. */
IDEM_API void idem_fetch_cancel(idem_fetch *fetch);
/* While held the body is not read and the sender's writes stall; idle_ms does not count. */
IDEM_API void idem_fetch_hold(idem_fetch *fetch, bool held);

/* The first header of that name (without case), or NULL. */
IDEM_API const char *idem_fetch_header(const idem_fetch_answer *answer, const char *name);
/* All of them in order: start with *pos = 0; false at the end. */
IDEM_API bool idem_fetch_next_header(const idem_fetch_answer *answer, size_t *pos,
                                     const char **name, const char **value);

#ifdef __cplusplus
}
#endif
#endif
