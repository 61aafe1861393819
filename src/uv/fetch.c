/* fetch.c - one HTTP request and its answer: limits, time, redirects, and exactly one end.
 * A redirect is a new transfer of ours, never libcurl's, so that what may go where is decided here.
 * See fetch.h. */
#include <idem/fetch.h>

#include "uv/fetch_opts.h"
#include "uv/fetcher.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HEAD_BYTES ((size_t)64 * 1024)
#define DROPPED_BYTES                                                                              \
  ((size_t)64 * 1024) /* of a redirect's body, before the connection is given up */
#define BODY_BYTES ((size_t)10 * 1024 * 1024)

struct idem_fetch {
  idem__runtime *runtime;
  idem__fetcher *fetcher;
  idem_alloc alloc;
  idem_fetch_opts opts; /* its strings are ours */
  idem_fetch_fn fn;
  void *user;
  idem__curl_transfer *transfer;
  char *url, *first_url;
  uint64_t end_ms;  /* UINT64_MAX: no limit */
  idem__timer idle; /* in the fetcher's deadlines */
  unsigned redirects_left;
  bool get;      /* a redirect made it one: no body any more */
  bool stripped; /* it has left the first origin */
  bool has_head, redirecting, streaming, held;
  bool cancelled;
  unsigned busy; /* a callback of the user's is on the stack */
  int http_status;
  size_t dropped;
  idem_buf head; /* name NUL value NUL ... */
  idem_buf body;
  idem_status failure; /* why a callback of ours stopped the transfer */
  char why[320];
};

/* ------------------------------------------------------------------- the end */

static void free_fetch(idem_fetch *fetch) {
  idem_alloc alloc = fetch->alloc;
  idem__runtime *runtime = fetch->runtime;
  idem__fetch_opts_free(&alloc, &fetch->opts);
  idem__free(&alloc, fetch->url);
  idem__free(&alloc, fetch->first_url);
  idem_buf_deinit(&fetch->head);
  idem_buf_deinit(&fetch->body);
  idem__free(&alloc, fetch);
  if (runtime) idem__runtime_release(runtime);
}

static void rest(idem_fetch *fetch) {
  idem__heap_remove(&fetch->fetcher->deadlines, &fetch->idle);
  idem__fetcher_count(fetch->fetcher, false);
}

static idem_fetch_answer answer_of(idem_fetch *fetch) {
  return (idem_fetch_answer){.why = "",
                             .http_status = fetch->http_status,
                             .url = fetch->url,
                             .head = fetch->head.data,
                             .head_len = fetch->head.len,
                             .body = ""};
}

static void finish(idem_fetch *fetch, idem_status status) {
  fetch->transfer = NULL;
  rest(fetch);
  idem_fetch_answer answer = answer_of(fetch);
  answer.status = status;
  if (status != IDEM_OK) answer.why = fetch->why;
  if (status == IDEM_OK && fetch->body.len) {
    answer.body = fetch->body.data; /* there is room for the NUL: see on_body */
    answer.body_len = fetch->body.len;
    fetch->body.data[fetch->body.len] = 0;
  }
  fetch->fn(&answer, fetch->user);
  free_fetch(fetch);
}

static IDEM_PRINTF(3, 4) bool stop(idem_fetch *fetch, idem_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(fetch->why, sizeof fetch->why, format, args);
  va_end(args);
  fetch->failure = status;
  return false;
}

void idem_fetch_cancel(idem_fetch *fetch) {
  if (!fetch || fetch->cancelled) return;
  fetch->cancelled = true;
  if (fetch->transfer) fetch->fetcher->module->cancel(fetch->transfer);
  fetch->transfer = NULL;
  rest(fetch);
  if (!fetch->busy) free_fetch(fetch);
}

/* A callback of the user's has returned; false: it has cancelled the fetch, which is gone. */
static bool still_there(idem_fetch *fetch) {
  fetch->busy--;
  if (!fetch->cancelled) return true;
  free_fetch(fetch);
  return false;
}

/* --------------------------------------------------------------------- silence */

static void on_silence(idem__timer *overdue) {
  idem_fetch *fetch = IDEM_CONTAINER(overdue, idem_fetch, idle);
  fetch->fetcher->module->cancel(fetch->transfer);
  stop(fetch, IDEM_E_TIMEOUT, "nothing came for %llu ms", (unsigned long long)fetch->opts.idle_ms);
  finish(fetch, IDEM_E_TIMEOUT);
}

static void expect_more(idem_fetch *fetch) {
  idem__fetcher *fetcher = fetch->fetcher;
  if (!fetch->opts.idle_ms) return;
  bool first = idem__heap_first(&fetcher->deadlines) == NULL;
  fetcher->expire = on_silence;
  if (fetch->held) {
    idem__heap_remove(&fetcher->deadlines, &fetch->idle);
  } else if (idem__heap_put(&fetcher->deadlines, &fetch->idle,
                            idem__clock_ms() + fetch->opts.idle_ms) != IDEM_OK) {
    return;
  }
  if (first || idem__heap_first(&fetcher->deadlines) == &fetch->idle) idem__fetcher_arm(fetcher);
}

void idem_fetch_hold(idem_fetch *fetch, bool held) {
  if (fetch->held == held || !fetch->transfer) return;
  fetch->held = held;
  expect_more(fetch);
  fetch->fetcher->module->hold(fetch->transfer, held);
}

/* ------------------------------------------------------------------ the answer */

static bool on_status(void *user, int status) {
  idem_fetch *fetch = user;
  fetch->http_status = status;
  fetch->head.len = 0;
  fetch->has_head = false;
  expect_more(fetch);
  return true;
}

static bool on_header(void *user, const char *name, size_t name_len, const char *value,
                      size_t value_len) {
  idem_fetch *fetch = user;
  if (memchr(name, 0, name_len) || memchr(value, 0, value_len)) return true;
  size_t start = fetch->head.len;
  idem_status status = idem_buf_put(&fetch->head, name, name_len);
  if (status == IDEM_OK) status = idem_buf_puts(&fetch->head, "\0");
  if (status == IDEM_OK) status = idem_buf_put(&fetch->head, value, value_len);
  if (status == IDEM_OK) status = idem_buf_puts(&fetch->head, "\0");
  if (status == IDEM_OK) return true;
  fetch->head.len = start; /* no name without a value */
  return stop(fetch, status, "the headers of the answer are too large");
}

bool idem_fetch_next_header(const idem_fetch_answer *answer, size_t *pos, const char **name,
                            const char **value) {
  if (*pos >= answer->head_len) return false;
  *name = answer->head + *pos;
  *value = *name + strlen(*name) + 1;
  *pos = (size_t)(*value - answer->head) + strlen(*value) + 1;
  return true;
}

const char *idem_fetch_header(const idem_fetch_answer *answer, const char *name) {
  size_t pos = 0;
  const char *found, *value;
  while (idem_fetch_next_header(answer, &pos, &found, &value))
    if (idem__text_equal_nocase(found, strlen(found), name, strlen(name))) return value;
  return NULL;
}

static bool is_redirect(idem_fetch *fetch) {
  int status = fetch->http_status;
  bool keeps = status == 307 || status == 308;
  if (fetch->opts.redirects == IDEM_REDIRECTS_NONE) return false;
  if (!keeps && (fetch->opts.keep_method || status < 301 || status > 303)) return false;
  idem_fetch_answer answer = answer_of(fetch);
  return idem_fetch_header(&answer, "Location") != NULL;
}

static bool on_head(void *user) {
  idem_fetch *fetch = user;
  fetch->has_head = true;
  fetch->redirecting = is_redirect(fetch);
  if (fetch->redirecting || !fetch->opts.on_head) return true;
  idem_fetch_answer answer = answer_of(fetch);
  fetch->busy++;
  bool streaming = fetch->opts.on_head(&answer, fetch->user);
  if (!still_there(fetch)) return false;
  fetch->streaming = streaming;
  return true;
}

static bool on_body(void *user, const char *data, size_t len) {
  idem_fetch *fetch = user;
  expect_more(fetch);
  if (fetch->redirecting) return (fetch->dropped += len) <= DROPPED_BYTES;
  if (fetch->streaming) {
    fetch->busy++;
    bool goes_on = fetch->opts.on_data(data, len, fetch->user);
    if (!still_there(fetch)) return false;
    return goes_on || stop(fetch, IDEM_E_CANCELLED, "the stream was ended");
  }
  idem_status status = fetch->body.len + len > fetch->opts.max_bytes
                           ? IDEM_E_LIMIT
                           : idem_buf_reserve(&fetch->body, len + 1);
  if (status == IDEM_OK) return idem_buf_put(&fetch->body, data, len) == IDEM_OK;
  return stop(fetch, status, "the answer is larger than %zu bytes", fetch->opts.max_bytes);
}

/* ------------------------------------------------------------------- redirects */

static idem_status start_transfer(idem_fetch *fetch);

static bool judge_target(idem_fetch *fetch, const char *target, bool same_hop) {
  bool same = false, downgrade = false;
  char *copy = NULL;
  if (fetch->opts.redirects == IDEM_REDIRECTS_SAME_ORIGIN) {
    return same_hop || stop(fetch, IDEM_E_PROTO, "redirected to another origin, %.200s", target);
  }
  downgrade = strncmp(fetch->url, "https:", 6) == 0 && strncmp(target, "https:", 6) != 0;
  if (downgrade) return stop(fetch, IDEM_E_PROTO, "redirected from https to %.200s", target);
  if (fetch->fetcher->module->resolve(fetch->first_url, target, &copy, &same) != IDEM_OK)
    return stop(fetch, IDEM_E_PROTO, "redirected to what is no URL");
  fetch->fetcher->module->free_text(copy);
  fetch->stripped |= !same;
  return true;
}

static void change_method(idem_fetch *fetch) {
  bool keeps = fetch->http_status == 307 || fetch->http_status == 308 ||
               strcmp(fetch->opts.method, "HEAD") == 0;
  if (!keeps) fetch->get = true;
}

/* True: the next transfer has begun. */
static bool follow(idem_fetch *fetch) {
  const idem__curl_module *module = fetch->fetcher->module;
  idem_fetch_answer answer = answer_of(fetch);
  char *target = NULL;
  bool same = false;
  if (fetch->redirects_left-- == 0) return stop(fetch, IDEM_E_PROTO, "redirected too often");
  idem_status status =
      module->resolve(fetch->url, idem_fetch_header(&answer, "Location"), &target, &same);
  if (status != IDEM_OK) return stop(fetch, IDEM_E_PROTO, "redirected to what is no HTTP URL");
  bool allowed = judge_target(fetch, target, same);
  char *copy = allowed ? idem__strndup(&fetch->alloc, target, strlen(target)) : NULL;
  module->free_text(target);
  if (!allowed) return false;
  if (!copy) return stop(fetch, IDEM_E_NOMEM, "no memory");
  idem__free(&fetch->alloc, fetch->url);
  fetch->url = copy;
  change_method(fetch);
  fetch->dropped = fetch->head.len = 0;
  fetch->redirecting = false;
  status = start_transfer(fetch);
  return status == IDEM_OK || stop(fetch, status, "%s", idem_status_text(status));
}

static void on_end(void *user, idem_status status, const char *why) {
  idem_fetch *fetch = user;
  fetch->transfer = NULL;
  bool dropped = status == IDEM_E_CANCELLED && fetch->failure == IDEM_OK;
  if (fetch->redirecting && (status == IDEM_OK || dropped)) {
    if (!follow(fetch)) finish(fetch, fetch->failure);
    return;
  }
  if (status == IDEM_E_CANCELLED) {
    finish(fetch, fetch->failure ? fetch->failure : IDEM_E_NOMEM);
    return;
  }
  if (status == IDEM_OK && !fetch->has_head) { /* to libcurl that is an end as any other */
    status = IDEM_E_CLOSED;
    why = "the connection broke off in the headers of the answer";
  }
  if (status != IDEM_OK) stop(fetch, status, "%s", why);
  finish(fetch, status);
}

/* -------------------------------------------------------------------- starting */

/* What may go on: all of it, or for another origin what tells nobody anything. */
static bool goes_on(const idem_fetch *fetch, const char *header) {
  bool type = idem__fetch_header_is(header, "Content-Type");
  if (fetch->get && (type || idem__fetch_header_is(header, "Content-Encoding"))) return false;
  return !fetch->stripped || type || idem__fetch_header_is(header, "Accept");
}

static uint64_t time_left(const idem_fetch *fetch) {
  if (fetch->end_ms == UINT64_MAX) return 0;
  uint64_t now = idem__clock_ms();
  return fetch->end_ms > now ? fetch->end_ms - now : 1;
}

static bool has_body(const idem_fetch *fetch) { return fetch->opts.body && !fetch->get; }

static bool may_connect(void *user, const uint8_t *address, size_t len) {
  const idem_fetch *fetch = user;
  return fetch->opts.may_connect(address, len, fetch->user);
}

static idem_status start_transfer(idem_fetch *fetch) {
  const idem_fetch_opts *opts = &fetch->opts;
  size_t count = 0;
  while (fetch->opts.headers[count]) count++;
  const char **headers = idem__calloc(&fetch->alloc, (count + 1) * sizeof *headers);
  if (!headers) return IDEM_E_NOMEM;
  for (size_t i = 0, n = 0; i < count; i++)
    if (goes_on(fetch, fetch->opts.headers[i])) headers[n++] = fetch->opts.headers[i];
  idem__curl_request request = {.method = fetch->get ? "GET" : opts->method,
                                .url = fetch->url,
                                .headers = headers,
                                .body = has_body(fetch) ? opts->body : NULL,
                                .body_len = opts->body_len,
                                .may_repeat = opts->may_repeat,
                                .connect_ms = opts->connect_ms,
                                .total_ms = time_left(fetch),
                                .proxy = opts->proxy,
                                .ca_file = opts->ca_file,
                                .cert_file = fetch->stripped ? NULL : opts->cert_file,
                                .key_file = fetch->stripped ? NULL : opts->key_file,
                                .no_verify = opts->no_verify,
                                .may_connect = opts->may_connect ? may_connect : NULL,
                                .on_status = on_status,
                                .on_header = on_header,
                                .on_head = on_head,
                                .on_body = on_body,
                                .on_end = on_end,
                                .user = fetch};
  idem_status status =
      fetch->fetcher->module->start(fetch->fetcher->set, &request, &fetch->transfer);
  idem__free(&fetch->alloc, headers);
  if (status == IDEM_OK) expect_more(fetch);
  return status;
}

static void set_defaults(idem_fetch *fetch) {
  idem_fetch_opts *opts = &fetch->opts;
  if (!opts->max_bytes) opts->max_bytes = BODY_BYTES;
  if (!opts->connect_ms) opts->connect_ms = 10000;
  if (!opts->total_ms) opts->total_ms = 60000;
  fetch->redirects_left = opts->max_redirects ? opts->max_redirects : 5;
  fetch->end_ms = opts->total_ms == UINT64_MAX ? UINT64_MAX : idem__clock_ms() + opts->total_ms;
  idem_buf_init(&fetch->head, &fetch->alloc, HEAD_BYTES);
  if (opts->max_bytes == SIZE_MAX) opts->max_bytes--; /* a NUL is added */
  idem_buf_init(&fetch->body, &fetch->alloc, opts->max_bytes + 1);
}

/* A POST without a body has one of length 0, which a server wants to be told. */
static void give_empty_body(idem_fetch *fetch) {
  const char *method = fetch->opts.method;
  bool wants =
      strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
  if (wants && !fetch->opts.body) fetch->opts.body = idem__strndup(&fetch->alloc, "", 0);
}

static idem_status take_url(idem_fetch *fetch, const char *url) {
  char *plain = NULL;
  bool same;
  idem_status status = fetch->fetcher->module->resolve(NULL, url, &plain, &same);
  if (status != IDEM_OK) return status;
  fetch->url = idem__strndup(&fetch->alloc, plain, strlen(plain));
  fetch->first_url = idem__strndup(&fetch->alloc, plain, strlen(plain));
  fetch->fetcher->module->free_text(plain);
  return fetch->url && fetch->first_url ? IDEM_OK : IDEM_E_NOMEM;
}

static idem_status prepare(idem_fetch *fetch, uv_loop_t *loop, const idem_fetch_opts *opts) {
  char why[256] = "";
  idem_status status = idem__runtime_get(loop, opts->alloc, &fetch->runtime);
  if (status != IDEM_OK) return status;
  status = idem__fetcher_get(fetch->runtime, why, sizeof why, &fetch->fetcher);
  if (status == IDEM_E_SYS) idem_logf(opts->log, IDEM_LOG_ERROR, "no HTTP client", "%s", why);
  if (status == IDEM_OK) status = take_url(fetch, opts->url);
  return status;
}

idem_status idem_fetch_check(uv_loop_t *loop, const char *url, const char *const *headers,
                             idem_log *log) {
  idem_fetch_opts opts = {.url = url, .headers = headers, .log = log};
  if (!idem__fetch_opts_good(&opts)) return IDEM_E_INVAL;
  idem_fetch *fetch = idem__calloc(NULL, sizeof *fetch);
  if (!fetch) return IDEM_E_NOMEM;
  fetch->alloc = idem__alloc_or_default(NULL);
  idem_status status = prepare(fetch, loop, &opts);
  free_fetch(fetch);
  return status;
}

idem_status idem_fetch_start(uv_loop_t *loop, const idem_fetch_opts *opts, idem_fetch_fn fn,
                             void *user, idem_fetch **out) {
  if (out) *out = NULL;
  if (!idem__fetch_opts_good(opts) || !fn) return IDEM_E_INVAL;
  idem_fetch *fetch = idem__calloc(opts->alloc, sizeof *fetch);
  if (!fetch) return IDEM_E_NOMEM;
  fetch->alloc = idem__alloc_or_default(opts->alloc);
  fetch->fn = fn;
  fetch->user = user;
  idem_status status =
      idem__fetch_opts_copy(&fetch->alloc, &fetch->opts, opts) ? IDEM_OK : IDEM_E_NOMEM;
  set_defaults(fetch);
  if (status == IDEM_OK) give_empty_body(fetch);
  if (status == IDEM_OK) status = prepare(fetch, loop, opts);
  if (status == IDEM_OK) {
    idem__fetcher_count(fetch->fetcher, true);
    status = start_transfer(fetch);
    if (status != IDEM_OK) rest(fetch);
  }
  if (status != IDEM_OK) {
    free_fetch(fetch);
    return status;
  }
  if (out) *out = fetch;
  return IDEM_OK;
}
