/* fetcher.h - the libcurl of one loop, as fetch.c uses it: sockets, timer, idle deadlines.
 * Made with the first request of a loop, closed with the loop's runtime. */
#ifndef IDEM_UV_FETCHER_H
#define IDEM_UV_FETCHER_H

#include "modules/curl/curl.h"
#include "uv/runtime.h"

struct idem__fetcher {
  const idem__curl_module *module;
  idem__curl *set;
  idem_alloc alloc;
  uv_loop_t *loop;
  uv_timer_t timer; /* libcurl's */
  uv_idle_t soon;   /* when it wants no time to pass */
  uv_timer_t idle;  /* for the first of `deadlines` */
  idem__heap deadlines;
  void (*expire)(idem__timer *overdue);
  size_t running;
  bool blind; /* there was no memory to watch a socket: all are looked at now and then */
  unsigned open_handles;
};

/* The runtime's, made when there is none yet. SYS: the module cannot be loaded; `why` says so. */
idem_status idem__fetcher_get(idem__runtime *runtime, char *why, size_t size, idem__fetcher **out);
/* A request begins or ends: the loop stays alive while one runs. */
void idem__fetcher_count(idem__fetcher *fetcher, bool more);
void idem__fetcher_arm(idem__fetcher *fetcher);

#endif
