/* client.c - what goes with each request of an MCP client, and what its answers mean beyond their message: the
 * version and what mirrors the message, the session and its loss, the standing stream, the older transport.
 * See docs/internals/mcp_http.md. */
#include "client.h"

#include "refusal.h"

#include <stdio.h>
#include <string.h>

#define SESSION_BYTES 1024

/* ---------------------------------------------------------------------- headers */

static idem_status put_line(idem_buf *out, const char *name, const char *value) {
  idem_status status = idem_buf_put(out, name, strlen(name));
  if (status == IDEM_OK) status = idem_buf_puts(out, ": ");
  if (status == IDEM_OK) status = idem_buf_put(out, value, strlen(value));
  return status == IDEM_OK ? idem_buf_put(out, "", 1) : status;
}

static bool is_handshake(const idem__mcp_call *call) {
  return call && call->kind == IDEM__MCP_HELLO && strcmp(call->method, "initialize") == 0;
}

static idem__mcp_call *call_of(const idem__mcp_web *web, const idem_outgoing *what) {
  return what && what->kind == IDEM_OUTGOING_CALL ? idem__mcp_call_of(web->client, what->call)
                                                  : NULL;
}

/* The handshake of the older era says nothing in headers, nor does what its stream is opened with: nobody knows yet what
 * holds. */
static idem_status put_version(const idem__mcp_web *web, const idem__mcp_call *call,
                               idem_buf *lines) {
  const idem_mcp_client *client = web->client;
  const idem__revision *revision = client->revision ? client->revision : client->offered;
  if (is_handshake(call) || !revision || (!call && !client->revision)) return IDEM_OK;
  if (!idem__revision_has(revision, IDEM__R_VERSION_HEADER | IDEM__R_MODERN)) return IDEM_OK;
  idem_status status = put_line(lines, "MCP-Protocol-Version", revision->date);
  if (status != IDEM_OK || !call || !idem__revision_has(revision, IDEM__R_MODERN)) return status;
  return idem__mcp_call_headers(call, lines);
}

/* While somebody looks for credentials the server is not silent. */
static void set_refused(idem__mcp_call *call, bool refused) {
  if (!call || call->refused == refused) return;
  call->refused = refused;
  idem__mcp_call_touch(call);
  idem__mcp_call_arm(call);
}

struct idem_mcp_sending {
  const char *method, *url;
  idem_buf *lines;
  idem_status status;
};

const char *idem_mcp_sending_method(const idem_mcp_sending *sending) { return sending->method; }
const char *idem_mcp_sending_url(const idem_mcp_sending *sending) { return sending->url; }

idem_status idem_mcp_sending_add(idem_mcp_sending *sending, const char *line) {
  if (!idem__mcp_is_line(line)) return IDEM_E_INVAL;
  if (sending->status == IDEM_OK)
    sending->status = idem_buf_put(sending->lines, line, strlen(line) + 1);
  return sending->status;
}

/* What only this request carries. */
static idem_status ask_program(idem__mcp_web *web, const idem__http_ask *ask, idem_buf *lines) {
  idem_mcp_client *client = web->client;
  idem_mcp_sending sending = {
      .method = ask->method, .url = ask->url ? ask->url : web->url, .lines = lines};
  if (client->opts.on_sending) client->opts.on_sending(client, &sending, client->opts.user);
  return sending.status;
}

/* What is sent once more by itself, should a kept connection break under it: never what runs a tool. */
static bool may_repeat(const idem__mcp_web *web, const idem__mcp_call *call,
                       const idem_outgoing *what) {
  if (call) return idem__mcp_method_is_harmless(call->row);
  return !what || (web->greeting && what->kind == IDEM_OUTGOING_NOTIFICATION);
}

static idem_status prepare(void *user, const idem_outgoing *what, idem__http_ask *ask,
                           idem_buf *lines) {
  idem__mcp_web *web = user;
  idem__mcp_call *call = call_of(web, what);
  set_refused(call, false);
  ask->may_repeat = may_repeat(web, call, what);
  idem_status status = put_version(web, call, lines);
  if (status == IDEM_OK && web->session && !is_handshake(call))
    status = put_line(lines, "Mcp-Session-Id", web->session);
  for (size_t i = 0; status == IDEM_OK && web->lines && web->lines[i]; i++)
    status = idem_buf_put(lines, web->lines[i], strlen(web->lines[i]) + 1);
  if (web->endpoint && what) ask->url = web->endpoint;
  return status == IDEM_OK ? ask_program(web, ask, lines) : status;
}

/* ---------------------------------------------------------------------- sending */

static bool is_answer(const idem_outgoing *what) {
  return what->kind == IDEM_OUTGOING_RESULT || what->kind == IDEM_OUTGOING_ERROR ||
         what->kind == IDEM_OUTGOING_BATCH;
}

static idem__http_verdict may_send(void *user, idem__http_post *post, const idem_outgoing *what) {
  idem__mcp_web *web = user;
  const idem_mcp_client *client = web->client;
  if (idem__mcp_modern(client) && is_answer(what)) return IDEM__HTTP_DROP;
  if (web->old && !web->endpoint) return IDEM__HTTP_WAIT;
  if (client->again && !is_handshake(call_of(web, what))) return IDEM__HTTP_WAIT;
  if (!web->greeting) return IDEM__HTTP_GO;
  /* After the handshake the server hears "initialized" before anything else. */
  if (web->greeting_post || what->kind != IDEM_OUTGOING_NOTIFICATION) return IDEM__HTTP_WAIT;
  web->greeting_post = post;
  return IDEM__HTTP_GO;
}

static void open_stream(idem__mcp_web *web) {
  if (web->http && !web->old && !web->streaming)
    web->streaming = idem__http_client_stream(web->http, false) == IDEM_OK;
}

static void gone(void *user, idem__http_post *post) {
  idem__mcp_web *web = user;
  idem__mcp_refusals_leave(web, post);
  for (size_t i = 0; i < web->parked_count; i++) {
    if (web->parked[i] == post) web->parked[i] = web->parked[--web->parked_count];
  }
  if (web->greeting_post != post) return;
  web->greeting_post = NULL;
  web->greeting = false;
  if (!web->client->closing) open_stream(web);
}

/* Without memory for "initialized" the server does not hear it; whoever waited for that goes on and may be refused. */
static void dropped(void *user, const idem_outgoing *what) {
  idem__mcp_web *web = user;
  if (what->kind == IDEM_OUTGOING_NOTIFICATION && !web->greeting_post) web->greeting = false;
}

/* ---------------------------------------------------------------------- answers */

static bool is_session(const char *text) {
  size_t len = strlen(text);
  for (size_t i = 0; i < len; i++) {
    if (text[i] < 0x21 || text[i] > 0x7e) return false;
  }
  return len > 0 && len <= SESSION_BYTES;
}

static void keep_session(idem__mcp_web *web, const idem__http_outcome *head) {
  const char *text = head->header ? head->header(head->answer, "Mcp-Session-Id", 0) : NULL;
  idem__free(&web->alloc, web->session);
  web->session = NULL;
  if (text && is_session(text))
    web->session = idem__strndup(&web->alloc, text, strlen(text));
  else if (text)
    idem__mcp_client_problem(web->client, "a session id that is none", NULL);
}

static void watch_head(const idem__mcp_web *web, const idem__http_outcome *head);

struct idem_mcp_answered {
  const idem__http_outcome *head;
};

int idem_mcp_answered_status(const idem_mcp_answered *answered) {
  return answered->head->http_status;
}

const char *idem_mcp_answered_header(const idem_mcp_answered *answered, const char *name,
                                     size_t index) {
  const idem__http_outcome *head = answered->head;
  return head->header ? head->header(head->answer, name, index) : NULL;
}

static void tell_program(const idem__mcp_web *web, const idem__http_outcome *head) {
  idem_mcp_client *client = web->client;
  idem_mcp_answered answered = {.head = head};
  if (client->opts.on_answered) client->opts.on_answered(client, &answered, client->opts.user);
}

static void note_patience(idem__mcp_call *call, long seconds) {
  call->retry_after_ms = seconds > 0 ? (uint64_t)seconds * 1000 : 0;
}

static void on_head(void *user, const idem_outgoing *what, const idem__http_outcome *head) {
  idem__mcp_web *web = user;
  idem__mcp_call *call = call_of(web, what);
  if (call && !head->resumes) call->http_status = head->http_status;
  if (call) note_patience(call, idem__http_retry_seconds(head));
  if (is_handshake(call) && head->http_status >= 200 && head->http_status <= 299)
    keep_session(web, head);
  tell_program(web, head);
  if (web->client->opts.on_traffic) watch_head(web, head);
}

/* The session has gone: this message waits for another one, once. */
static idem__http_verdict lose_session(idem__mcp_web *web, idem__http_post *post) {
  if (web->parked_count == IDEM__MCP_PARKED) return IDEM__HTTP_GO;
  web->parked[web->parked_count++] = post;
  if (!web->client->again) {
    web->renewals++;
    idem__mcp_hello_again(web->client);
  }
  return IDEM__HTTP_WAIT;
}

static idem__http_verdict refused(void *user, idem__http_post *post, const idem_outgoing *what,
                                  const idem__http_outcome *outcome) {
  idem__mcp_web *web = user;
  idem__mcp_call *call = call_of(web, what);
  int status = outcome->http_status;
  if (status == 401 || status == 403) {
    set_refused(call, true);
    return idem__mcp_refusal_begin(web, post, outcome);
  }
  if (status == 404 && web->session && call && !is_handshake(call) &&
      !idem__mcp_modern(web->client) && !call->tried_session) {
    call->tried_session = true;
    return lose_session(web, post);
  }
  return IDEM__HTTP_GO;
}

void idem__mcp_web_session(idem__mcp_web *web, bool there) {
  static const idem__http_outcome gone_for_good = {
      .http_status = 404, .type = "text/plain", .body = "the session is lost", .len = 19};
  while (web->http && web->parked_count) {
    idem__http_post *post = web->parked[--web->parked_count];
    if (there)
      idem__http_post_again(post);
    else
      idem__http_post_give_up(post, &gone_for_good);
  }
}

/* -------------------------------------------------------------- eras, transports */

void idem__mcp_web_settled(idem__mcp_web *web, const idem__revision *revision) {
  if (!web->http) return;
  if (idem__revision_has(revision, IDEM__R_MODERN)) {
    idem__http_client_cut(web->http);
    return;
  }
  web->greeting = true;
  web->greeting_post = NULL;
}

bool idem__mcp_web_fall_back(idem__mcp_web *web) {
  if (web->old || !web->http) return false;
  web->old = true;
  idem__http_client_elsewhere(web->http);
  return idem__http_client_stream(web->http, true) == IDEM_OK;
}

static bool same_origin(const char *base, const char *url, size_t len) {
  const char *rest = strstr(base, "://");
  size_t origin = rest ? (size_t)(rest + 3 - base) + strcspn(rest + 3, "/?#") : strlen(base);
  return len >= origin && memcmp(base, url, origin) == 0 &&
         (len == origin || strchr("/?#", url[origin]));
}

static bool is_plain(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7f) return false;
  }
  return len > 0;
}

/* How much of the base comes before a reference that is not absolute. */
static size_t kept_of(const char *base, const char *text) {
  const char *rest = strstr(base, "://") + 3;
  const char *path = rest + strcspn(rest, "/?#"), *end = path + strcspn(path, "?#");
  if (*text == '/') return (size_t)(path - base);
  if (*text == '?') return (size_t)(end - base);
  while (end > path && end[-1] != '/') end--;
  return (size_t)(end - base);
}

idem_status idem__mcp_web_resolve(const idem_alloc *alloc, const char *base, const char *text,
                                  size_t len, char **out) {
  if (!is_plain(text, len) || !strstr(base, "://") || (len > 1 && text[0] == '/' && text[1] == '/'))
    return IDEM_E_INVAL;
  bool absolute = memchr(text, ':', len) && strncmp(text, "http", 4) == 0;
  if (absolute && !same_origin(base, text, len)) return IDEM_E_INVAL;
  size_t kept = absolute ? 0 : kept_of(base, text);
  bool slash = !absolute && kept && text[0] != '/' && text[0] != '?' && base[kept - 1] != '/';
  *out = idem__malloc(alloc, kept + len + 2);
  if (!*out) return IDEM_E_NOMEM;
  memcpy(*out, base, kept);
  if (slash) (*out)[kept++] = '/';
  memcpy(*out + kept, text, len);
  (*out)[kept + len] = 0;
  return IDEM_OK;
}

/* Where messages go: said once, and only somewhere on the same server. */
static void on_event(void *user, const idem__sse_event *event) {
  idem__mcp_web *web = user;
  if (!web->old || web->endpoint || !idem__view_eq(event->event, "endpoint")) return;
  if (idem__mcp_web_resolve(&web->alloc, web->url, event->data.at, event->data.len,
                            &web->endpoint) != IDEM_OK)
    idem__mcp_client_problem(web->client, "an endpoint elsewhere, or none", NULL);
  else
    idem__http_client_release(web->http);
}

/* Without its stream the older transport is deaf. */
static void stream_lost(void *user, const idem__http_outcome *outcome) {
  const idem__mcp_web *web = user;
  idem_mcp_client *client = web->client;
  if (!web->old || !client->conn) return;
  bool had = web->endpoint != NULL;
  idem__mcp_client_problem(client, "the event stream of the older transport has ended",
                           outcome->status == IDEM_OK ? NULL : outcome->why);
  if (had)
    idem_conn_close(client->conn);
  else
    idem__mcp_hello_failed(client, "the server speaks neither Streamable HTTP nor HTTP+SSE here",
                           outcome->http_status);
}

static void finish(void *user) {
  const idem__mcp_web *web = user;
  if (web->session && web->http) (void)idem__http_client_goodbye(web->http);
}

/* --------------------------------------------------------------------- watching */

static void watch(const idem__mcp_web *web, idem_direction direction, const idem_buf *text) {
  idem_mcp_client *client = web->client;
  idem_mcp_traffic traffic = {.kind = IDEM_MCP_TRAFFIC_HEAD,
                              .direction = direction,
                              .at_ns =
                                  client->conn ? idem__conn_read_clock(client->conn) * 1000000u : 0,
                              .data = text->data,
                              .len = text->len};
  client->opts.on_traffic(client, &traffic, client->opts.user);
}

static bool is_secret(const char *line) {
  static const char *const names[] = {"authorization", "cookie", "dpop", "proxy-authorization",
                                      "set-cookie"};
  size_t len = strcspn(line, ":");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (idem__text_equal_nocase(line, len, names[i], strlen(names[i]))) return true;
  }
  return false;
}

static void on_sent(void *user, const char *method, const char *url, const char *const *headers) {
  const idem__mcp_web *web = user;
  char storage[8192];
  idem_buf text;
  if (!web->client->opts.on_traffic) return;
  idem_buf_fixed(&text, storage, sizeof storage);
  (void)idem_buf_printf(&text, "%s %s\n", method, url);
  for (; *headers; headers++) {
    if (is_secret(*headers))
      (void)idem_buf_printf(&text, "%.*s: ...\n", (int)strcspn(*headers, ":"), *headers);
    else
      (void)idem_buf_printf(&text, "%s\n", *headers);
  }
  watch(web, IDEM_OUT, &text);
}

static void watch_head(const idem__mcp_web *web, const idem__http_outcome *head) {
  static const char *const shown[] = {
      "Content-Type", "Content-Length", "Mcp-Session-Id", "WWW-Authenticate",
      "Location",     "Retry-After",    "Server"};
  char storage[8192];
  idem_buf text;
  idem_buf_fixed(&text, storage, sizeof storage);
  const char *words = idem__http_reason(head->http_status);
  if (words)
    (void)idem_buf_printf(&text, "HTTP %s\n", words);
  else
    (void)idem_buf_printf(&text, "HTTP %d\n", head->http_status);
  for (size_t i = 0; head->header && i < sizeof shown / sizeof *shown; i++) {
    const char *value = head->header(head->answer, shown[i], 0);
    if (value) (void)idem_buf_printf(&text, "%s: %s\n", shown[i], value);
  }
  watch(web, IDEM_IN, &text);
}

/* --------------------------------------------------------------------- the life */

static void start(void *user, idem__http_client *http) {
  idem__mcp_web *web = user;
  web->http = http;
  web->lines_since = 0; /* it counts anew */
}

const idem__http_hooks idem__mcp_web_hooks = {.start = start,
                                              .may_send = may_send,
                                              .prepare = prepare,
                                              .head = on_head,
                                              .refused = refused,
                                              .gone = gone,
                                              .dropped = dropped,
                                              .event = on_event,
                                              .stream_lost = stream_lost,
                                              .finish = finish,
                                              .sent = on_sent};

idem_status idem__mcp_web_new(idem_mcp_client *client, const char *url, const idem_alloc *alloc,
                              idem__mcp_web **out) {
  idem__mcp_web *web = idem__calloc(alloc, sizeof *web);
  *out = NULL;
  if (!web) return IDEM_E_NOMEM;
  web->alloc = idem__alloc_or_default(alloc);
  web->client = client;
  idem_list_init(&web->refusals);
  web->url = idem__strndup(alloc, url, strlen(url));
  if (!web->url) {
    idem__free(alloc, web);
    return IDEM_E_NOMEM;
  }
  *out = web;
  return IDEM_OK;
}

void idem__mcp_web_leave(idem__mcp_web *web) {
  web->http = NULL;
  web->parked_count = 0;
  idem__mcp_refusals_leave(web, NULL);
}

void idem__mcp_web_free(idem__mcp_web *web) {
  if (!web) return;
  idem__mcp_web_leave(web);
  idem__mcp_lines_free(web);
  idem_alloc alloc = web->alloc;
  idem__free(&alloc, web->session);
  idem__free(&alloc, web->endpoint);
  idem__free(&alloc, web->url);
  idem__free(&alloc, web);
}
