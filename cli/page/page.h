/* page.h - the page of `idem serve`: its files, what the operator may know of the server, the live feed.
 * See docs/internals/page.md. */
#ifndef IDEM_CLI_PAGE_H
#define IDEM_CLI_PAGE_H

#include "feed.h"
#include "page_key.h"

#define PAGE_ROUTES 16
#define PAGE_HEADERS 6
#define PAGE_ADDRESSES 16

struct service;

typedef struct page {
  feed feed;
  page_key key;
  const struct service *service;
  const char *key_list[2];
  char policy[512];
  const char *file_headers[PAGE_HEADERS + 2]; /* the policy, the others, NULL */
  idem_http_route routes[PAGE_ROUTES];
  size_t route_count;
  char *addresses[PAGE_ADDRESSES];
  size_t address_count;
  uint64_t read_us;   /* when what is in force was read */
  uint64_t failed_us; /* when the last reload was refused; 0: it was not */
  size_t mark;        /* where the log was when it began */
  idem_buf faults;    /* of it: the strings of a JSON array */
} page;

/* False: told. */
bool page_init(page *self, const struct service *owner);
void page_deinit(page *self);
void page_on_loop(page *self, uv_loop_t *loop);
/* Tells the operator where it is: on a terminal whole, else by a file. */
void page_on_listening(page *self, const char *url);
void page_reload_begins(page *self);
void page_reload_ends(page *self, bool taken);

/* about.c: what the operator may know; user: the page. */
void page_serve_about(idem_http_exchange *exchange, const idem_http_request *request, void *user);

#endif
