/* connect_http.c - a conn whose messages are POSTed: the protocol of src/http/http_client.c over the
 * requests of fetch.c. There is no socket to be ready or lost, so the conn lives until it is closed,
 * and what cannot be delivered fails the call it belongs to. See docs/internals/uv.md. */
#include "http/http_client.h"
#include "uv/client.h"
#include "uv/fetch.h"

#include <stdio.h>
#include <string.h>

#define LAST_MS 2000   /* for messages under way when the conn is closed */
#define FAR_MS 3600000 /* a timer keeps the loop alive as an open socket would */
#define IDLE_MS 300000

typedef struct web_client {
  idem__runtime *runtime;
  idem_connect_opts opts;
  idem_policy policy;
  idem__client_opts client;
  char *url;
  const char **headers; /* of a POST; the first two are ours */
  idem_conn *conn;
  idem__http_client *http;
  uv_prepare_t flusher; /* runs before the loop blocks, when the conn may have changed */
  uv_timer_t timer;     /* the first turn; deadlines */
  unsigned open_handles;
  uint64_t close_ms; /* when what is under way is given up; UINT64_MAX: the conn is open */
  bool failed, closed;
  idem_ready_fn on_ready;
  void *user;
} web_client;

/* One request under way. */
typedef struct asked {
  web_client *self;
  idem__http_post *post;
  idem__fetch *fetch;
} asked;

/* ------------------------------------------------------------------------ the end */

static void free_client(web_client *self) {
  idem__runtime *runtime = self->runtime;
  idem__client_opts_deinit(&self->client, &runtime->alloc);
  idem__free(&runtime->alloc, self->headers);
  idem__free(&runtime->alloc, self->url);
  idem__free(&runtime->alloc, self);
  idem__runtime_release(runtime);
}

static void on_handle_closed(uv_handle_t *handle) {
  web_client *self = handle->data;
  if (--self->open_handles == 0) free_client(self);
}

static void close_client(web_client *self) {
  idem_conn *conn = self->conn;
  if (self->closed) return;
  self->closed = true;
  if (conn && self->opts.on_close) self->opts.on_close(conn, self->opts.user);
  idem__http_client_free(self->http);
  self->http = NULL;
  self->conn = NULL;
  idem_conn_free(conn);
  if (conn) idem__metrics_add(self->opts.metrics, IDEM__M_CONNECTIONS_CLOSED, 1);
  uv_close((uv_handle_t *)&self->flusher, on_handle_closed);
  uv_close((uv_handle_t *)&self->timer, on_handle_closed);
}

/* ----------------------------------------------------------------------- settling */

static void settle(web_client *self);
static void on_prepare(uv_prepare_t *prepare) {
  uv_prepare_stop(prepare);
  settle(prepare->data);
}
static void on_timer(uv_timer_t *timer) { settle(timer->data); }

static void mark(web_client *self) {
  if (!self->closed) uv_prepare_start(&self->flusher, on_prepare);
}

static void on_output(idem_conn *conn, void *user) {
  (void)conn;
  mark(user);
}

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void arm(web_client *self, uint64_t now) {
  uint64_t at = earlier(idem_conn_deadline(self->conn), idem__http_client_deadline(self->http));
  at = earlier(earlier(at, self->close_ms), now + FAR_MS);
  uv_update_time(self->runtime->loop);
  uv_timer_start(&self->timer, on_timer, at > now ? at - now : 0, 0);
}

/* True: all is said, or nobody will hear the rest. */
static bool finished(web_client *self, uint64_t now) {
  if (self->failed) return true;
  if (!idem_conn_done(self->conn)) return false;
  if (self->close_ms == UINT64_MAX) self->close_ms = now + LAST_MS;
  return idem__http_client_posts(self->http) == 0 || now >= self->close_ms;
}

static void settle(web_client *self) {
  if (self->closed) return;
  uint64_t now = idem__clock_ms();
  if (idem_conn_deadline(self->conn) <= now) {
    idem_status status = idem_conn_expire(self->conn);
    self->failed |= status != IDEM_OK && status != IDEM_E_CLOSED;
  }
  if (!self->failed) idem__http_client_pump(self->http, now);
  if (finished(self, now))
    close_client(self);
  else
    arm(self, now);
}

/* ----------------------------------------------------------------------- requests */

static bool on_head(const idem__fetch_answer *answer, void *user) {
  const asked *one = user;
  return idem__http_post_head(one->post, answer->http_status,
                              idem__fetch_header(answer, "Content-Type"));
}

static bool on_data(const char *data, size_t len, void *user) {
  const asked *one = user;
  mark(one->self);
  return idem__http_post_data(one->post, data, len);
}

static void on_answer(const idem__fetch_answer *answer, void *user) {
  asked one = *(const asked *)user;
  idem__free(&one.self->runtime->alloc, user);
  idem__http_outcome outcome = {.status = answer->status,
                                .why = answer->why,
                                .http_status = answer->http_status,
                                .type = idem__fetch_header(answer, "Content-Type"),
                                .retry_after = idem__fetch_header(answer, "Retry-After"),
                                .body = answer->body,
                                .len = answer->body_len};
  idem__http_post_end(one.post, &outcome, idem__clock_ms());
  mark(one.self);
}

static void cancel_ask(void *user, void *handle) {
  web_client *self = user;
  asked *one = handle;
  idem__fetch_cancel(one->fetch);
  idem__free(&self->runtime->alloc, one);
}

static void hold_ask(void *user, void *handle, bool held) {
  const asked *one = handle;
  (void)user;
  idem__fetch_hold(one->fetch, held);
}

/* The list is filled in for each request: what it accepts, then what is said always. */
static void set_headers(web_client *self, const char *accept, const char *second) {
  self->headers[0] = accept;
  self->headers[1] = second;
}

static idem_status start_fetch(web_client *self, asked *one, const idem__http_ask *ask) {
  const idem_client_opts *client = &self->client.opts;
  idem__fetch_opts opts = {.method = ask->body ? "POST" : "GET",
                           .url = self->url,
                           .headers = self->headers,
                           .body = ask->body,
                           .body_len = ask->len,
                           .max_bytes = self->policy.limits.message_bytes,
                           .connect_ms = client->connect_ms,
                           .total_ms = client->total_ms ? client->total_ms : UINT64_MAX,
                           .idle_ms = client->idle_ms ? client->idle_ms : IDLE_MS,
                           .redirects = client->redirect_elsewhere ? IDEM__REDIRECTS_STRIPPED
                                                                   : IDEM__REDIRECTS_SAME_ORIGIN,
                           .keep_method = true,
                           .proxy = client->proxy,
                           .ca_file = client->ca_file,
                           .cert_file = client->cert_file,
                           .key_file = client->key_file,
                           .no_verify = client->no_verify,
                           .log = self->opts.log,
                           .alloc = &self->runtime->alloc,
                           .on_head = on_head,
                           .on_data = on_data};
  return idem__fetch_start(self->runtime->loop, &opts, on_answer, one, &one->fetch);
}

static idem_status send_ask(void *user, idem__http_post *post, const idem__http_ask *ask,
                            void **handle) {
  web_client *self = user;
  char last[1200];
  asked *one = idem__calloc(&self->runtime->alloc, sizeof *one);
  if (!one) return IDEM_E_NOMEM;
  one->self = self;
  one->post = post;
  if (ask->body) {
    set_headers(self, "Accept: application/json, text/event-stream",
                "Content-Type: application/json");
  } else {
    snprintf(last, sizeof last, "Last-Event-ID: %s", ask->last_event_id);
    set_headers(self, "Accept: text/event-stream", last);
  }
  idem_status status = start_fetch(self, one, ask);
  set_headers(self, "", "");
  if (status != IDEM_OK) idem__free(&self->runtime->alloc, one);
  *handle = status == IDEM_OK ? one : NULL;
  return status;
}

/* ------------------------------------------------------------------------ opening */

static void on_protocol_error(idem_conn *conn, const idem_protocol_error *error, void *user) {
  const web_client *self = user;
  if (self->opts.on_protocol_error) self->opts.on_protocol_error(conn, error, self->opts.user);
}

static idem_status open_conn(web_client *self) {
  const idem_connect_opts *opts = &self->opts;
  idem_conn_opts conn_opts = {.router = opts->router,
                              .policy = &self->policy,
                              .alloc = opts->alloc,
                              .pool = self->runtime->pool,
                              .now_ns = idem__clock_ns,
                              .on_output = on_output,
                              .on_protocol_error = on_protocol_error,
                              .user = self,
                              .log = opts->log,
                              .metrics = opts->metrics,
                              .peer = self->url,
                              .seed = idem_random_seed()};
  idem_status status =
      opts->server ? idem__runtime_accept(self->runtime, opts->server, &conn_opts, &self->conn)
                   : idem_conn_new(&conn_opts, &self->conn);
  if (status != IDEM_OK) return status;
  idem__conn_set_host(self->conn, self->runtime->loop);
  idem__metrics_add(opts->metrics, IDEM__M_CONNECTIONS_OPENED, 1);
  return idem__http_client_new(
      &(idem__http_client_opts){.conn = self->conn,
                                .max_requests = self->client.opts.max_requests,
                                .log = opts->log,
                                .alloc = &self->runtime->alloc,
                                .send = send_ask,
                                .cancel = cancel_ask,
                                .hold = hold_ask,
                                .user = self},
      &self->http);
}

static void on_first_turn(uv_timer_t *timer) {
  web_client *self = timer->data;
  idem_status status = open_conn(self);
  if (status != IDEM_OK) {
    self->opts.on_close = NULL; /* it never was open */
    idem_ready_fn on_ready = self->on_ready;
    void *user = self->user;
    close_client(self);
    on_ready(NULL, status, user);
    return;
  }
  uv_timer_start(&self->timer, on_timer, 0,
                 0); /* so that a single turn of the loop ends after it */
  if (self->opts.on_open) self->opts.on_open(self->conn, self->opts.user);
  self->on_ready(self->conn, IDEM_OK, self->user);
}

static idem_status prepare(web_client *self, const char *url) {
  const idem_alloc *alloc = &self->runtime->alloc;
  idem_status status = idem__client_opts_init(&self->client, alloc, self->opts.client);
  if (status != IDEM_OK) return status;
  status = idem__fetch_check(self->runtime->loop, url, self->client.headers, self->opts.log);
  if (status != IDEM_OK) return status;
  self->url = idem__strndup(alloc, url, strlen(url));
  size_t count = 0;
  while (self->client.headers[count]) count++;
  self->headers = idem__calloc(alloc, (count + 3) * sizeof *self->headers);
  if (!self->url || !self->headers) return IDEM_E_NOMEM;
  memcpy(self->headers + 2, self->client.headers, count * sizeof *self->headers);
  idem__client_hide_token(&self->client, self->opts.log);
  return IDEM_OK;
}

idem_status idem__connect_http(idem__runtime *runtime, const char *url,
                               const idem_connect_opts *opts, idem_ready_fn on_ready, void *user) {
  web_client *self = idem__calloc(&runtime->alloc, sizeof *self);
  if (!self) return IDEM_E_NOMEM;
  runtime->references++;
  self->runtime = runtime;
  self->opts = *opts;
  self->policy = opts->policy ? *opts->policy : idem_policy_preset(IDEM_PROFILE_JSONRPC);
  self->policy.framing = IDEM_FRAMING_WHOLE;
  self->policy.guard_http = false;
  self->policy.limits.idle_ms = 0; /* nothing is held open that could be idle */
  self->on_ready = on_ready;
  self->user = user;
  self->close_ms = UINT64_MAX;
  idem_status status = prepare(self, url);
  if (status != IDEM_OK) {
    free_client(self);
    return status;
  }
  uv_prepare_init(runtime->loop, &self->flusher);
  uv_timer_init(runtime->loop, &self->timer);
  self->flusher.data = self->timer.data = self;
  self->open_handles = 2;
  uv_timer_start(&self->timer, on_first_turn, 0, 0);
  return IDEM_OK;
}
