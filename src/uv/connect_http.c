/* connect_http.c - an asker: a peer whose messages are POSTed, by the protocol of
 * src/http/http_client.c as its codec and the requests of fetch.c. There is no socket to be ready or
 * lost, so the conn lives until it is closed, and what cannot be delivered fails the call it belongs
 * to. See docs/internals/uv.md. */
#include "http/http_client.h"
#include "uv/client.h"
#include <idem/fetch.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LAST_MS 2000   /* for messages under way when the conn is closed */
#define FAR_MS 3600000 /* a timer keeps the loop alive as an open socket would */
#define IDLE_MS 300000

typedef struct asker {
  idem__peer peer;
  idem_serve_opts opts;
  idem_policy policy;
  idem__client_opts client;
  char *url;
  const idem__http_hooks *hooks; /* of a protocol on top; NULL: none */
  void *hooks_user;
  idem__http_client *http;
  uv_timer_t timer;  /* the first turn; then it only keeps the loop alive */
  uint64_t close_ms; /* when what is under way is given up; UINT64_MAX: the conn is open */
} asker;

/* One request under way. */
typedef struct asked {
  asker *self;
  idem__http_post *post;
  idem_fetch *fetch;
} asked;

static asker *asker_of(const idem__driver *driver) { return driver->io; }
static const idem_alloc *alloc_of(const asker *self) { return &self->peer.driver.runtime->alloc; }

/* --------------------------------------------------------------- a wire without bytes */

static ssize_t wire_read(idem__driver *driver, char *into, size_t size) {
  (void)driver, (void)into, (void)size; /* unreachable: nothing says that there is input */
  return -EAGAIN;
}

static ssize_t wire_write(idem__driver *driver, const struct iovec *pieces, int count) {
  (void)driver, (void)pieces, (void)count; /* unreachable: the codec gives no bytes */
  return -EAGAIN;
}

static idem_status wire_interest(idem__driver *driver, bool read, bool write) {
  (void)driver, (void)read, (void)write; /* who is not wanted is held: see http_client.c */
  return IDEM_OK;
}

static bool wire_end_output(idem__driver *driver) {
  (void)driver;
  return false;
}

static void on_closed(uv_handle_t *handle) {
  asker *self = handle->data;
  idem__driver_gone(&self->peer.driver);
}

static void wire_close(idem__driver *driver) {
  uv_close((uv_handle_t *)&asker_of(driver)->timer, on_closed);
}

static const idem__wire asker_wire = {.read = wire_read,
                                      .write = wire_write,
                                      .interest = wire_interest,
                                      .end_output = wire_end_output,
                                      .close = wire_close};

static void asker_freed(idem__peer *peer) {
  asker *self = asker_of(&peer->driver);
  idem_alloc alloc = *alloc_of(self);
  idem__client_opts_deinit(&self->client, &alloc);
  idem__free(&alloc, self->url);
  idem__free(&alloc, self);
}

/* ------------------------------------------------------------------------- the codec */

static idem_status asker_feed(idem__peer *peer, const char *data, size_t len) {
  (void)peer, (void)data, (void)len; /* unreachable: the wire has no input */
  return IDEM_OK;
}

/* Each message of the conn's becomes a request; what they bring comes to the conn without us. */
static idem_status asker_pump(idem__peer *peer) {
  idem__http_client_pump(peer->codec_state, idem__clock_ms());
  return IDEM_OK;
}

/* When all is said, what is under way has a moment. */
static void asker_look(idem__peer *peer, idem__wants *wants) {
  asker *self = asker_of(&peer->driver);
  uint64_t now = idem__clock_ms(), at = idem__http_client_deadline(self->http);
  if (wants->done && self->close_ms == UINT64_MAX) self->close_ms = now + LAST_MS;
  if (self->close_ms < at) at = self->close_ms;
  if (at < wants->deadline) wants->deadline = at;
  wants->done = wants->done && (idem__http_client_posts(self->http) == 0 || now >= self->close_ms);
}

static bool asker_is_open(const idem__peer *peer) {
  (void)peer;
  return true;
}

static const char *asker_fault(const idem__peer *peer) {
  return peer->open_failure == IDEM_OK ? "" : idem_status_text(peer->open_failure);
}

static void asker_free(idem__peer *peer) { idem__http_client_free(peer->codec_state); }

static const idem__codec asker_codec = {.feed = asker_feed,
                                        .pump = asker_pump,
                                        .look = asker_look,
                                        .open = asker_is_open,
                                        .fault = asker_fault,
                                        .free = asker_free};

/* ----------------------------------------------------------------------- requests */

static const char *header_of(const void *of, const char *name, size_t index) {
  const idem_fetch_answer *answer = of;
  const char *each, *value;
  size_t pos = 0;
  while (idem_fetch_next_header(answer, &pos, &each, &value)) {
    if (idem__text_equal_nocase(each, strlen(each), name, strlen(name)) && index-- == 0)
      return value;
  }
  return NULL;
}

static idem__http_outcome outcome_of(const idem_fetch_answer *answer) {
  return (idem__http_outcome){.status = answer->status,
                              .why = answer->why,
                              .http_status = answer->http_status,
                              .type = idem_fetch_header(answer, "Content-Type"),
                              .retry_after = idem_fetch_header(answer, "Retry-After"),
                              .body = answer->body,
                              .len = answer->body_len,
                              .header = header_of,
                              .answer = answer};
}

static bool on_head(const idem_fetch_answer *answer, void *user) {
  const asked *one = user;
  idem__http_outcome head = outcome_of(answer);
  return idem__http_post_head(one->post, &head);
}

static bool on_data(const char *data, size_t len, void *user) {
  const asked *one = user;
  idem__driver_mark(&one->self->peer.driver);
  return idem__http_post_data(one->post, data, len);
}

static void on_answer(const idem_fetch_answer *answer, void *user) {
  asked one = *(const asked *)user;
  idem__free(alloc_of(one.self), user);
  idem__http_outcome outcome = outcome_of(answer);
  idem__http_post_end(one.post, &outcome, idem__clock_ms());
  idem__driver_mark(&one.self->peer.driver);
}

static void cancel_ask(void *user, void *handle) {
  asker *self = user;
  asked *one = handle;
  idem_fetch_cancel(one->fetch);
  idem__free(alloc_of(self), one);
}

static void hold_ask(void *user, void *handle, bool held) {
  const asked *one = handle;
  (void)user;
  idem_fetch_hold(one->fetch, held);
}

/* ------------------------------------------------------------------- their headers */

static size_t name_length(const char *line) { return strcspn(line, ":"); }

/* Whether the lines of this request, each ended by a NUL, have one of that name. */
static bool is_said(const idem__http_ask *ask, const char *line) {
  const char *each = ask->lines, *end = each + ask->lines_len;
  for (; each && each < end; each += strlen(each) + 1) {
    if (idem__text_equal_nocase(each, name_length(each), line, name_length(line))) return true;
  }
  return false;
}

static size_t count_lines(const asker *self, const idem__http_ask *ask) {
  size_t count = 4;
  for (size_t i = 0; i < ask->lines_len; i++) count += ask->lines[i] == 0;
  for (size_t i = 0; self->client.headers[i]; i++) count++;
  return count;
}

/* What the request accepts and carries, what the protocol on top says, then what is said always. */
static const char **list_headers(const asker *self, const idem__http_ask *ask, char *accept,
                                 char *last) {
  const char **list = idem__calloc(alloc_of(self), count_lines(self, ask) * sizeof *list);
  size_t count = 0;
  if (!list) return NULL;
  if (ask->accept) list[count++] = accept;
  if (ask->body) list[count++] = "Content-Type: application/json";
  if (ask->last_event_id) list[count++] = last;
  const char *each = ask->lines, *end = each + ask->lines_len;
  for (; each && each < end; each += strlen(each) + 1) list[count++] = each;
  for (size_t i = 0; self->client.headers[i]; i++) {
    if (!is_said(ask, self->client.headers[i])) list[count++] = self->client.headers[i];
  }
  return list;
}

static idem_status start_fetch(asker *self, asked *one, const idem__http_ask *ask,
                               const char *const *headers) {
  const idem_client_opts *client = &self->client.opts;
  uint64_t idle = client->idle_ms ? client->idle_ms : IDLE_MS;
  if (ask->standing) idle = 0; /* no limit */
  idem_fetch_opts opts = {.method = ask->method,
                          .url = ask->url ? ask->url : self->url,
                          .headers = headers,
                          .body = ask->body,
                          .body_len = ask->len,
                          .may_repeat = ask->may_repeat,
                          .max_bytes = self->policy.limits.message_bytes,
                          .connect_ms = client->connect_ms,
                          .total_ms = client->total_ms ? client->total_ms : UINT64_MAX,
                          .idle_ms = idle,
                          .redirects = client->redirect_elsewhere ? IDEM_REDIRECTS_STRIPPED
                                                                  : IDEM_REDIRECTS_SAME_ORIGIN,
                          .keep_method = true,
                          .proxy = client->proxy,
                          .ca_file = client->ca_file,
                          .cert_file = client->cert_file,
                          .key_file = client->key_file,
                          .no_verify = client->no_verify,
                          .log = self->opts.log,
                          .alloc = alloc_of(self),
                          .on_head = on_head,
                          .on_data = on_data};
  if (self->hooks && self->hooks->sent)
    self->hooks->sent(self->hooks_user, opts.method, opts.url, headers);
  return idem_fetch_start(self->peer.driver.runtime->loop, &opts, on_answer, one, &one->fetch);
}

static idem_status send_ask(void *user, idem__http_post *post, const idem__http_ask *ask,
                            void **handle) {
  asker *self = user;
  char last[1200], accept[128];
  asked *one = idem__calloc(alloc_of(self), sizeof *one);
  snprintf(last, sizeof last, "Last-Event-ID: %s", ask->last_event_id ? ask->last_event_id : "");
  snprintf(accept, sizeof accept, "Accept: %s", ask->accept ? ask->accept : "");
  const char **headers = one ? list_headers(self, ask, accept, last) : NULL;
  idem_status status = headers ? IDEM_OK : IDEM_E_NOMEM;
  if (status == IDEM_OK) {
    *one = (asked){.self = self, .post = post};
    status = start_fetch(self, one, ask, headers);
  }
  idem__free(alloc_of(self), headers);
  if (status != IDEM_OK) idem__free(alloc_of(self), one);
  *handle = status == IDEM_OK ? one : NULL;
  return status;
}

/* ------------------------------------------------------------------------ opening */

static idem_status open_client(asker *self) {
  idem__http_client_opts opts = {.conn = self->peer.conn,
                                 .max_requests = self->client.opts.max_requests,
                                 .log = self->opts.log,
                                 .alloc = alloc_of(self),
                                 .send = send_ask,
                                 .cancel = cancel_ask,
                                 .hold = hold_ask,
                                 .user = self,
                                 .hooks = self->hooks,
                                 .hooks_user = self->hooks_user};
  idem_status status = idem__http_client_new(&opts, &self->http);
  if (status != IDEM_OK) return status;
  self->peer.codec = &asker_codec;
  self->peer.codec_state = self->http;
  return IDEM_OK;
}

static void on_far_timer(uv_timer_t *timer) { (void)timer; }

static void open_now(asker *self, idem_ready_fn on_ready) {
  idem__peer *peer = &self->peer;
  peer->open_failure = open_client(self);
  if (peer->open_failure != IDEM_OK) {
    idem__driver_close(&peer->driver); /* which tells */
    return;
  }
  peer->on_ready = NULL;
  /* At once, so that a single turn of the loop ends after it. */
  uv_timer_start(&self->timer, on_far_timer, 0, FAR_MS);
  if (self->opts.on_open) self->opts.on_open(peer->conn, self->opts.user);
  on_ready(peer->conn, IDEM_OK, peer->ready_user);
}

static void on_first_turn(uv_timer_t *timer) {
  asker *self = timer->data;
  idem_ready_fn on_ready = self->peer.on_ready;
  void *user = self->peer.ready_user;
  idem_status status = idem__peer_open(&self->peer, &self->policy, self->url);
  if (status == IDEM_OK) {
    open_now(self, on_ready);
    return;
  }
  idem__peer_discard(&self->peer);
  on_ready(NULL, status, user);
}

static idem_status prepare(asker *self, const char *url, const idem_client_opts *client) {
  const idem_alloc *alloc = alloc_of(self);
  idem_status status = idem__client_opts_init(&self->client, alloc, client);
  if (status != IDEM_OK) return status;
  status =
      idem_fetch_check(self->peer.driver.runtime->loop, url, self->client.headers, self->opts.log);
  if (status != IDEM_OK) return status;
  self->url = idem__strndup(alloc, url, strlen(url));
  if (!self->url) return IDEM_E_NOMEM;
  idem__client_hide_token(&self->client, self->opts.log);
  return IDEM_OK;
}

static idem_policy policy_of(const idem_connect_opts *opts) {
  idem_policy policy = opts->policy ? *opts->policy : idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.framing = IDEM_FRAMING_WHOLE;
  policy.guard_http = false;
  policy.limits.idle_ms = 0; /* nothing is held open that could be idle */
  return policy;
}

idem_status idem__connect_http(idem__runtime *runtime, const char *url,
                               const idem_connect_opts *opts, const idem__http_hooks *hooks,
                               void *hooks_user, idem_ready_fn on_ready, void *user) {
  asker *self = idem__calloc(&runtime->alloc, sizeof *self);
  if (!self) return IDEM_E_NOMEM;
  self->opts = idem__peer_opts_of(opts);
  self->peer.on_trace = opts->on_trace;
  self->policy = policy_of(opts);
  self->close_ms = UINT64_MAX;
  self->hooks = hooks;
  self->hooks_user = hooks_user;
  self->peer.driver.wire = &asker_wire;
  self->peer.driver.io = self;
  self->peer.opts = &self->opts;
  self->peer.on_ready = on_ready;
  self->peer.ready_user = user;
  self->peer.on_freed = asker_freed;
  idem__peer_init(&self->peer, runtime);
  idem_status status = prepare(self, url, opts->client);
  if (status != IDEM_OK) {
    idem__driver_gone(&self->peer.driver);
    return status;
  }
  uv_timer_init(runtime->loop, &self->timer);
  self->timer.data = self;
  uv_timer_start(&self->timer, on_first_turn, 0, 0);
  return IDEM_OK;
}
