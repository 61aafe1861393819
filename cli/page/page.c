/* page.c - see page.h. The files hold no secret and are for everybody who reaches the address by a name of its own; what
 * happens in the server, and its configuration, need the operator's key. */
#include "page.h"

#include "page_files.h"
#include "service/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FEED_READERS 16
#define FAULT_BYTES ((size_t)32 * 1024)

static const char *const file_headers[] = {
    "Cache-Control: no-cache",
    "X-Frame-Options: DENY",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Opener-Policy: same-origin",
    "Cross-Origin-Resource-Policy: same-origin",
    "Permissions-Policy: camera=(), microphone=(), geolocation=()"};
_Static_assert(sizeof file_headers / sizeof *file_headers == PAGE_HEADERS, "beside the policy");
static const char *const key_headers[] = {"Cross-Origin-Resource-Policy: same-origin",
                                          "Referrer-Policy: no-referrer", NULL};

/* No script but the file's, no style but the one in the document, nothing from elsewhere, in nobody's frame, and no way from
 * text to script. */
static bool make_policy(page *self) {
  int len = snprintf(
      self->policy, sizeof self->policy,
      "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'sha256-%s'; "
      "img-src 'self' data: blob:; media-src data: blob:; connect-src 'self'; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
      "trusted-types 'none'",
      page_style_digest);
  self->file_headers[0] = self->policy;
  memcpy(self->file_headers + 1, file_headers, sizeof file_headers);
  return len > 0 && (size_t)len < sizeof self->policy;
}

static void add_file(page *self, const page_file *one) {
  self->routes[self->route_count++] = (idem_http_route){.path = one->path,
                                                        .methods = IDEM_HTTP_GET,
                                                        .serve = idem_http_serve_file,
                                                        .user = (void *)(uintptr_t)&one->file,
                                                        .no_token = true,
                                                        .no_rate_limit = true,
                                                        .headers = self->file_headers};
}

static void add_keyed(page *self, const char *path, idem_http_serve_fn serve, void *user) {
  self->routes[self->route_count++] = (idem_http_route){.path = path,
                                                        .methods = IDEM_HTTP_GET,
                                                        .serve = serve,
                                                        .user = user,
                                                        .tokens = self->key_list,
                                                        .headers = key_headers,
                                                        .max_kept = FEED_READERS};
}

static void make_routes(page *self) {
  self->key_list[0] = self->key.text;
  for (size_t i = 0; i < page_file_count && i < PAGE_ROUTES - 2; i++)
    add_file(self, &page_files[i]);
  add_keyed(self, "/page/feed", feed_serve, &self->feed);
  add_keyed(self, "/page/about", page_serve_about, self);
}

bool page_init(page *self, const struct service *owner) {
  const char *why = "";
  *self = (page){.service = owner, .read_us = wall_clock_us()};
  feed_init(&self->feed, owner->log, &owner->programs);
  idem_buf_init(&self->faults, NULL, FAULT_BYTES);
  if (!page_key_init(&self->key, owner->options->page_key, &why)) {
    idem_logf(owner->log, IDEM_LOG_ERROR, "the page has no key", "%s", why);
    return false;
  }
  if (!make_policy(self)) return false; /* unreachable: it has room */
  idem_log_add_secret(owner->log, self->key.text, strlen(self->key.text));
  make_routes(self);
  return true;
}

void page_deinit(page *self) {
  feed_deinit(&self->feed);
  idem_buf_deinit(&self->faults);
  for (size_t i = 0; i < self->address_count; i++) free(self->addresses[i]);
  page_key_deinit(&self->key);
}

void page_on_loop(page *self, uv_loop_t *loop) { feed_on_loop(&self->feed, loop); }

/* ------------------------------------------------------------------------- telling */

static void tell_file(const page *self, const char *url, bool written) {
  char detail[1200];
  int origin = (int)(strlen(url) - strlen(strrchr(url, '/')));
  int len = written ? snprintf(detail, sizeof detail, "%.*s/ its address with the key is in %s",
                               origin, url, self->key.file)
                    : snprintf(detail, sizeof detail,
                               "%.*s/ its key could not be written: %s; set IDEM_PAGE_KEY", origin,
                               url, strerror(errno));
  idem_log_write(self->service->log,
                 &(idem_log_record){.level = written ? IDEM_LOG_INFO : IDEM_LOG_WARN,
                                    .message = "the page is at",
                                    .detail = detail,
                                    .detail_len = (size_t)len,
                                    .plain = true});
}

void page_on_listening(page *self, const char *url) {
  char address[512];
  if (self->address_count < PAGE_ADDRESSES)
    if ((self->addresses[self->address_count] = strdup(url))) self->address_count++;
  if (strncmp(url, "http", 4) != 0 || !strrchr(url, '/')) return;
  if (isatty(STDERR_FILENO) && page_key_address(&self->key, url, address, sizeof address))
    fprintf(stderr, "page      %s\n", address);
  else if (!*self->key.file)
    tell_file(self, url, page_key_write(&self->key, url));
}

/* ------------------------------------------------------------------------- reloading */

void page_reload_begins(page *self) { self->mark = feed_mark(&self->feed); }

void page_reload_ends(page *self, bool taken) {
  self->faults.len = 0;
  self->failed_us = taken ? 0 : wall_clock_us();
  if (taken)
    self->read_us = wall_clock_us();
  else
    feed_put_since(&self->feed, self->mark, &self->faults);
}
