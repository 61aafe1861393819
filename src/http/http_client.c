/* http_client.c - each message a POST, each answer back into the conn, each call ended once.
 * Whatever a server does (drops the connection, ends a stream early, answers with another id, says
 * 503), the call of the post ends: by an answer, or by an error that says what happened.
 * See docs/internals/http.md. */
#include "http_client.h"

#include <stdio.h>
#include <string.h>

#define AFTER_MS 1000 /* for an exchange to end by itself once nobody waits for it */
#define LOOK_MS 1000  /* how often calls that were cancelled are noticed at the latest */
#define REST_MS 100   /* at least, before a stream is taken up again, whatever it asks for */
#define EVENT_ID_BYTES 1024
#define LASTED_MS                                                                                  \
  30000 /* a standing stream that was there so long was of use, though it said nothing */
#define SHOWN_BYTES 256   /* of the body of an HTTP error */
#define LINES_BYTES 65536 /* of headers for one request */

/* What a post is for. */
typedef enum post_kind { POST_MESSAGE, POST_STREAM, POST_GOODBYE } post_kind;

struct idem__http_post {
  idem__http_client *client;
  idem__list link; /* in queue or posts */
  post_kind kind;
  idem_chunk chunk;   /* owner NULL: the server has it, or there is none */
  idem_outgoing what; /* of the chunk */
  uint64_t call;      /* whose answer is expected; 0: none is */
  void *handle;       /* of the request under way */
  bool asking;        /* there is one */
  bool streaming;     /* its answer is an event stream */
  bool resumed;       /* it is a GET */
  bool held;          /* and not read for now */
  bool over;          /* nobody waits for it */
  bool parked;        /* it was refused, and waits to be sent again or given up */
  bool opened;        /* a stream that was there once */
  unsigned refusals;
  uint64_t turn;      /* which of the client's requests its last one was */
  bool parsing;       /* the parser has been made */
  uint64_t at_ms;     /* asking: when it is cut off if `over`; else when the stream is resumed */
  unsigned tries;     /* in a row without an event */
  idem_status broken; /* why we ended the stream */
  idem__sse_parser parser;
};

struct idem__http_client {
  idem__http_client_opts opts;
  idem_alloc alloc;
  idem__list queue; /* not yet sent */
  idem__list posts;
  size_t calls, others; /* of `posts` */
  size_t count;         /* of both */
  uint64_t deadline_ms;
  uint64_t turns; /* requests made so far */
  bool cuts, elsewhere, finished, needs_stream;
  idem__http_post *stream; /* the standing one; NULL: none */
};

static const idem_outgoing *what_of(const idem__http_post *post) {
  return post->kind == POST_MESSAGE ? &post->what : NULL;
}

static const idem__http_hooks no_hooks;

static const idem__http_hooks *hooks_of(const idem__http_client *client) {
  return client->opts.hooks ? client->opts.hooks : &no_hooks;
}

/* ---------------------------------------------------------------- the outgoing */

/* The id of a call, 0 for anything else. */
static uint64_t call_of(const idem_chunk *chunk) {
  return chunk->what.kind == IDEM_OUTGOING_CALL ? chunk->what.call : 0;
}

static void free_post(idem__http_post *post) {
  idem__http_client *client = post->client;
  idem__list_remove(&post->link);
  if (client->stream == post) client->stream = NULL;
  if (hooks_of(client)->gone) hooks_of(client)->gone(client->opts.hooks_user, post);
  if (post->asking) client->opts.cancel(client->opts.user, post->handle);
  if (post->chunk.owner) idem_chunk_free(&post->chunk);
  if (post->parsing) idem__sse_parser_deinit(&post->parser);
  client->count--;
  idem__free(&client->alloc, post);
}

static void end_post(idem__http_post *post) {
  if (post->call)
    post->client->calls--;
  else
    post->client->others--;
  free_post(post);
}

static void fail_call(idem__http_post *post, idem_status status, const char *why) {
  idem__http_client *client = post->client;
  if (post->call)
    idem__call_fail(client->opts.conn, post->call, status, why);
  else if (post->kind == POST_MESSAGE)
    idem_logf(client->opts.log, IDEM_LOG_WARN, "a message was not delivered", "%s", why);
}

/* The protocol on top adds what it has to say, and says where. */
static idem_status prepare(idem__http_post *post, idem__http_ask *ask, idem__buf *lines) {
  const idem__http_client_opts *opts = &post->client->opts;
  const idem__http_hooks *hooks = hooks_of(post->client);
  if (!hooks->prepare) return IDEM_OK;
  idem_status status = hooks->prepare(opts->hooks_user, what_of(post), ask, lines);
  ask->lines = lines->data;
  ask->lines_len = lines->len;
  return status;
}

static bool ask(idem__http_post *post, idem__http_ask *what) {
  const idem__http_client_opts *opts = &post->client->opts;
  idem__buf lines;
  idem__buf_init(&lines, &post->client->alloc, LINES_BYTES);
  idem_status status = prepare(post, what, &lines);
  post->turn = ++post->client->turns;
  if (status == IDEM_OK) status = opts->send(opts->user, post, what, &post->handle);
  idem__buf_deinit(&lines);
  post->asking = status == IDEM_OK;
  post->streaming = post->held = false;
  if (!post->asking) fail_call(post, status, idem_status_text(status));
  return post->asking;
}

static bool ask_with_message(idem__http_post *post) {
  return ask(post, &(idem__http_ask){.method = "POST",
                                     .body = post->chunk.data,
                                     .len = post->chunk.len,
                                     .accept = "application/json, text/event-stream"});
}

static void drop(const idem__http_client *client, idem_chunk *chunk) {
  uint64_t call = call_of(chunk);
  idem_outgoing what = chunk->what;
  const idem__http_hooks *hooks = hooks_of(client);
  idem_chunk_free(chunk);
  if (call) idem__call_fail(client->opts.conn, call, IDEM_E_NOMEM, "no memory");
  if (hooks->dropped) hooks->dropped(client->opts.hooks_user, &what);
}

static void take_output(idem__http_client *client) {
  idem_chunk chunk;
  while (idem_conn_next_chunk(client->opts.conn, &chunk)) {
    idem__http_post *post = idem__calloc(&client->alloc, sizeof *post);
    uint64_t call = call_of(&chunk);
    if (!post) {
      drop(client, &chunk);
      continue;
    }
    post->client = client;
    post->chunk = chunk;
    post->what = chunk.what;
    post->call = call;
    idem__list_append(&client->queue, &post->link);
    client->count++;
  }
}

static bool has_room(const idem__http_post *post) {
  const idem__http_client *client = post->client;
  return (post->call ? client->calls : client->others) < client->opts.max_requests;
}

static void send_post(idem__http_post *post) {
  idem__http_client *client = post->client;
  idem__list_remove(&post->link);
  idem__list_append(&client->posts, &post->link);
  if (post->call)
    client->calls++;
  else
    client->others++;
  if (!ask_with_message(post)) end_post(post);
}

static idem__http_verdict may_send(idem__http_post *post) {
  const idem__http_client *client = post->client;
  const idem__http_hooks *hooks = hooks_of(client);
  if (!hooks->may_send) return IDEM__HTTP_GO;
  return hooks->may_send(client->opts.hooks_user, post, what_of(post));
}

static void send_if_allowed(idem__http_post *post) {
  idem__http_verdict verdict = has_room(post) ? may_send(post) : IDEM__HTTP_WAIT;
  if (verdict == IDEM__HTTP_DROP)
    free_post(post);
  else if (verdict != IDEM__HTTP_WAIT)
    send_post(post);
}

/* What waits for room lets messages of the other kind pass: an answer we owe may be what the server
 * needs before it answers us. */
static void send_queue(idem__http_client *client) {
  for (idem__list *node = client->queue.next, *next; node != &client->queue; node = next) {
    idem__http_post *post = IDEM__CONTAINER(node, idem__http_post, link);
    next = node->next;
    if (post->call && !idem__call_pending(client->opts.conn, post->call))
      free_post(post);
    else
      send_if_allowed(post);
  }
}

/* --------------------------------------------------------------- broken streams */

static bool resumable(const idem__http_post *post) {
  size_t len = post->parsing ? post->parser.last_id.len : 0;
  if (post->kind == POST_STREAM) return post->opened && post->tries < post->client->opts.retries;
  return len > 0 && len <= EVENT_ID_BYTES && post->tries < post->client->opts.retries;
}

/* The call has no answer yet, so what came was no progress: a server that says `retry: 1` and sends
 * an event per stream, which counts as life, must not have us knock a thousand times a second. */
static void rest(idem__http_post *post, uint64_t now_ms) {
  uint64_t wait = post->parser.retry_ms ? post->parser.retry_ms : post->client->opts.retry_ms;
  if (wait > 60000) wait = 60000;
  post->tries++;
  wait *= post->tries;
  post->at_ms = now_ms + (wait < REST_MS ? REST_MS : wait);
}

/* The last event's id, if there was one that can be told. */
static const char *last_id(const idem__http_post *post, char id[EVENT_ID_BYTES + 1]) {
  const idem__buf *last = &post->parser.last_id;
  if (!post->parsing || !last->len || last->len > EVENT_ID_BYTES) return NULL;
  memcpy(id, last->data, last->len);
  id[last->len] = 0;
  return id;
}

static void resume(idem__http_post *post) {
  char id[EVENT_ID_BYTES + 1];
  const char *last = last_id(post, id);
  if (post->parsing) idem__sse_parser_restart(&post->parser);
  post->resumed = true;
  idem__http_ask what = {.method = "GET",
                         .accept = "text/event-stream",
                         .last_event_id = last,
                         .standing = post->kind == POST_STREAM};
  if (!ask(post, &what)) end_post(post);
}

/* ------------------------------------------------------------------ looking after */

/* Something that was said and has no answer to wait for: neither a goodbye nor the end of the standing stream
 * may overtake it. */
static bool is_saying(const idem__http_client *client) {
  for (const idem__list *node = client->posts.next; node != &client->posts; node = node->next) {
    const idem__http_post *post = IDEM__CONTAINER(node, idem__http_post, link);
    if (post->kind == POST_MESSAGE && !post->call) return true;
  }
  return !idem__list_empty(&client->queue);
}

/* The post may be gone after it. */
static void look_at(idem__http_post *post, uint64_t now_ms) {
  const idem_conn *conn = post->client->opts.conn;
  bool done = idem_conn_done(conn);
  bool wanted = post->call ? idem__call_pending(conn, post->call)
                           : post->kind != POST_STREAM || !done || is_saying(post->client);
  if (!wanted && !post->over) {
    post->over = true;
    post->at_ms = now_ms + (done || post->client->cuts ? 0 : AFTER_MS);
  }
  if (post->over && (!post->asking || post->at_ms <= now_ms))
    end_post(post);
  else if (!post->asking && !post->parked && post->at_ms <= now_ms)
    resume(post);
}

static idem__http_post *first_held(const idem__http_client *client) {
  for (const idem__list *node = client->posts.next; node != &client->posts; node = node->next) {
    idem__http_post *post = IDEM__CONTAINER(node, idem__http_post, link);
    if (post->held && post->asking) return post;
  }
  return NULL;
}

/* Letting go may deliver at once and end any post, so the search begins anew after each. */
static void let_go(idem__http_client *client) {
  const idem__http_client_opts *opts = &client->opts;
  idem__http_post *post;
  while (idem_conn_want_read(opts->conn) && (post = first_held(client))) {
    post->held = false;
    opts->hold(opts->user, post->handle, false);
  }
}

static void note_deadline(idem__http_client *client, const idem__http_post *post, uint64_t now_ms) {
  bool fixed = (!post->asking && !post->parked) || post->over;
  uint64_t at = fixed ? post->at_ms : now_ms + LOOK_MS;
  if (!post->call && !fixed) return;
  if (at < client->deadline_ms) client->deadline_ms = at;
}

static void say_goodbye(idem__http_client *client) {
  const idem__http_hooks *hooks = hooks_of(client);
  if (client->finished || !idem_conn_done(client->opts.conn) || is_saying(client)) return;
  client->finished = true;
  if (hooks->finish) hooks->finish(client->opts.hooks_user);
}

void idem__http_client_pump(idem__http_client *client, uint64_t now_ms) {
  let_go(client);
  take_output(client);
  for (idem__list *node = client->posts.next, *next; node != &client->posts; node = next) {
    next = node->next;
    look_at(IDEM__CONTAINER(node, idem__http_post, link), now_ms);
  }
  send_queue(client);
  say_goodbye(client);
  client->deadline_ms = UINT64_MAX;
  for (const idem__list *node = client->posts.next; node != &client->posts; node = node->next)
    note_deadline(client, IDEM__CONTAINER(node, idem__http_post, link), now_ms);
}

uint64_t idem__http_client_deadline(const idem__http_client *client) { return client->deadline_ms; }
size_t idem__http_client_posts(const idem__http_client *client) { return client->count; }

/* ------------------------------------------------------------------- the answer */

static bool is_type(const char *type, const char *wanted) {
  size_t len = type ? strcspn(type, "; \t") : 0;
  return len && idem__text_equal_nocase(type, len, wanted, strlen(wanted));
}

static bool still_pending(const idem__http_post *post) {
  return post->call && idem__call_pending(post->client->opts.conn, post->call);
}

static void on_event(void *user, const idem__sse_event *event) {
  idem__http_post *post = user;
  const idem__http_client *client = post->client;
  bool message = idem__view_eq(event->event, "message");
  post->tries = 0;
  if (!message && post->kind == POST_STREAM && hooks_of(client)->event)
    hooks_of(client)->event(client->opts.hooks_user, event);
  if (!idem__view_eq(event->event, "message") || !event->data.len) return;
  idem_status status =
      idem__conn_message(post->client->opts.conn, event->data.at, event->data.len, NULL);
  if (status != IDEM_OK) post->broken = status;
}

static void begin_stream(idem__http_post *post) {
  idem__http_client *client = post->client;
  if (post->parsing) return;
  size_t max = idem_conn_policy(client->opts.conn)->limits.message_bytes;
  idem__sse_parser_init(&post->parser, &client->alloc, max, on_event, post);
  post->parsing = true;
}

static void forget_message(idem__http_post *post) {
  if (post->chunk.owner) idem_chunk_free(&post->chunk);
  post->chunk = (idem_chunk){0};
}

static bool succeeded(int http_status) { return http_status >= 200 && http_status <= 299; }

bool idem__http_post_head(idem__http_post *post, const idem__http_outcome *head) {
  idem__http_client *client = post->client;
  const idem__http_hooks *hooks = hooks_of(client);
  if (hooks->head) hooks->head(client->opts.hooks_user, what_of(post), head);
  post->streaming = head->http_status == 200 && is_type(head->type, "text/event-stream");
  if (succeeded(head->http_status)) forget_message(post);
  if (post->streaming) begin_stream(post);
  if (post->streaming) post->opened = true;
  return post->streaming;
}

bool idem__http_post_data(idem__http_post *post, const char *data, size_t len) {
  const idem__http_client_opts *opts = &post->client->opts;
  idem_status status = idem__sse_parser_feed(&post->parser, data, len);
  if (status != IDEM_OK) post->broken = status;
  if (post->broken != IDEM_OK) return false;
  if (!post->held && !idem_conn_want_read(opts->conn)) {
    post->held = true;
    opts->hold(opts->user, post->handle, true);
  }
  return true;
}

/* ------------------------------------------------------------------ HTTP errors */

/* Seconds, as servers mostly write it; -1: a date, or nothing. */
static long seconds_of(const char *retry_after) {
  long seconds = 0;
  size_t len = retry_after ? strlen(retry_after) : 0;
  if (!len || len > 6 || strspn(retry_after, "0123456789") != len) return -1;
  for (size_t i = 0; i < len; i++) seconds = seconds * 10 + (retry_after[i] - '0');
  return seconds;
}

static idem_status put_http_error(idem__buf *out, uint64_t call,
                                  const idem__http_outcome *outcome) {
  const char *words = idem__http_reason(outcome->http_status);
  char number[16];
  snprintf(number, sizeof number, "%d", outcome->http_status);
  long seconds = seconds_of(outcome->retry_after);
  size_t shown = idem__utf8_cut(outcome->body ? outcome->body : "", outcome->len, SHOWN_BYTES);
  idem_status status = idem__buf_printf(
      out,
      "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"error\":{\"code\":%d,\"message\":\"HTTP %s\","
      "\"data\":{\"status\":%d",
      (unsigned long long)call, IDEM_RPC_SERVER_ERROR, words ? words : number,
      outcome->http_status);
  if (status == IDEM_OK && seconds >= 0)
    status = idem__buf_printf(out, ",\"retryAfter\":%ld", seconds);
  if (status == IDEM_OK && shown) {
    status = idem__buf_puts(out, ",\"body\":");
    if (status == IDEM_OK) status = idem__text_json_string(out, outcome->body, shown);
  }
  return status == IDEM_OK ? idem__buf_puts(out, "}}}") : status;
}

/* A JSON-RPC error in the body is the server's own word; it is this call's even where the server
 * could not read the id. */
static idem_status put_own_error(idem__buf *out, uint64_t call, const idem__http_outcome *outcome) {
  yyjson_alc alc = idem__json_alc(out->alloc);
  yyjson_doc *doc = is_type(outcome->type, "application/json")
                        ? yyjson_read_opts((char *)(uintptr_t)outcome->body, outcome->len,
                                           YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL)
                        : NULL;
  yyjson_val *error = yyjson_obj_get(yyjson_doc_get_root(doc), "error");
  idem_status status = IDEM_E_NOTFOUND;
  if (yyjson_is_obj(error) && yyjson_is_num(yyjson_obj_get(error, "code"))) {
    status = idem__buf_printf(
        out, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"error\":", (unsigned long long)call);
    if (status == IDEM_OK) status = idem__json_put_any(out, error);
    if (status == IDEM_OK) status = idem__buf_puts(out, "}");
  }
  yyjson_doc_free(doc);
  return status;
}

static void fail_http(idem__http_post *post, const idem__http_outcome *outcome) {
  idem__http_client *client = post->client;
  const char *words = idem__http_reason(outcome->http_status);
  if (!post->call) {
    fail_call(post, IDEM_E_REMOTE, words ? words : "an HTTP error");
    return;
  }
  idem__buf text;
  idem__buf_init(&text, &client->alloc, idem_conn_policy(client->opts.conn)->limits.message_bytes);
  idem_status status = put_own_error(&text, post->call, outcome);
  if (status != IDEM_OK) {
    text.len = 0;
    status = put_http_error(&text, post->call, outcome);
  }
  if (status == IDEM_OK) (void)idem__conn_message(client->opts.conn, text.data, text.len, NULL);
  idem__buf_deinit(&text);
  /* Whatever went wrong on the way, the call has not ended yet. */
  if (still_pending(post)) fail_call(post, IDEM_E_PROTO, words ? words : "an HTTP error");
}

/* --------------------------------------------------------------------- the end */

static void take_json(idem__http_post *post, const idem__http_outcome *outcome) {
  if (!outcome->len) {
    if (post->call) fail_call(post, IDEM_E_PROTO, "the server answered without an answer");
    return;
  }
  if (!is_type(outcome->type, "application/json")) {
    if (post->call) fail_call(post, IDEM_E_PROTO, "the answer is neither JSON nor an event stream");
    return;
  }
  idem__conn_message(post->client->opts.conn, outcome->body, outcome->len, NULL);
  if (still_pending(post)) fail_call(post, IDEM_E_PROTO, "the answer is not to this call");
}

static void fail_stream(idem__http_post *post, const idem__http_outcome *outcome) {
  if (post->broken == IDEM_E_LIMIT)
    fail_call(post, IDEM_E_LIMIT, "an event is too large");
  else if (post->broken != IDEM_OK)
    fail_call(post, post->broken, idem_status_text(post->broken));
  else if (outcome->status != IDEM_OK)
    fail_call(post, outcome->status, outcome->why);
  else
    fail_call(post, IDEM_E_PROTO, "the event stream ended without an answer");
}

/* Whoever knows better may have it sent again, now or later. True: the post goes on. */
static bool refused(idem__http_post *post, const idem__http_outcome *outcome) {
  idem__http_client *client = post->client;
  const idem__http_hooks *hooks = hooks_of(client);
  if (!hooks->refused || outcome->status != IDEM_OK || outcome->http_status < 400 ||
      post->kind != POST_MESSAGE || !post->chunk.owner)
    return false;
  post->parked = true;
  post->refusals++;
  idem__http_verdict verdict =
      hooks->refused(client->opts.hooks_user, post, what_of(post), outcome);
  if (verdict == IDEM__HTTP_WAIT) return true;
  post->parked = false;
  return verdict == IDEM__HTTP_AGAIN && ask_with_message(post);
}

/* The standing stream is opened again while somebody wants it. */
static bool conclude_stream(idem__http_post *post, const idem__http_outcome *outcome,
                            uint64_t now_ms) {
  idem__http_client *client = post->client;
  const idem__http_hooks *hooks = hooks_of(client);
  bool lost = outcome->status != IDEM_OK || outcome->http_status >= 500 || post->streaming;
  if (post->streaming && now_ms - post->at_ms >= LASTED_MS) post->tries = 0;
  if (lost && post->broken == IDEM_OK && resumable(post) && !client->needs_stream) {
    begin_stream(post);
    rest(post, now_ms);
    return true;
  }
  if (hooks->stream_lost) hooks->stream_lost(client->opts.hooks_user, outcome);
  return false;
}

/* True: the post goes on with another request. */
static bool conclude(idem__http_post *post, const idem__http_outcome *outcome, uint64_t now_ms) {
  if (post->call && !still_pending(post)) return false;
  if (post->kind == POST_GOODBYE) return false;
  if (post->kind == POST_STREAM) return conclude_stream(post, outcome, now_ms);
  if (refused(post, outcome)) return true;
  bool lost = outcome->status != IDEM_OK || outcome->http_status >= 500;
  if (post->streaming || (post->resumed && lost)) {
    if (post->broken == IDEM_OK && post->call && resumable(post)) {
      rest(post, now_ms);
      return true;
    }
    if (post->streaming || outcome->status != IDEM_OK) {
      if (post->call) fail_stream(post, outcome);
      return false;
    }
  }
  if (outcome->status != IDEM_OK)
    fail_call(post, outcome->status, outcome->why);
  else if (!succeeded(outcome->http_status))
    fail_http(post, outcome);
  else if (!post->client->elsewhere)
    take_json(post, outcome);
  return false;
}

void idem__http_post_end(idem__http_post *post, const idem__http_outcome *outcome,
                         uint64_t now_ms) {
  post->asking = post->held = false;
  post->handle = NULL;
  if (!conclude(post, outcome, now_ms)) end_post(post);
}

/* ----------------------------------------------------------- for a protocol on top */

void idem__http_client_cut(idem__http_client *client) { client->cuts = true; }
void idem__http_client_elsewhere(idem__http_client *client) { client->elsewhere = true; }

static idem_status add_post(idem__http_client *client, post_kind kind, idem__http_post **out) {
  idem__http_post *post = idem__calloc(&client->alloc, sizeof *post);
  if (!post) return IDEM_E_NOMEM;
  post->client = client;
  post->kind = kind;
  idem__list_append(&client->posts, &post->link);
  client->count++;
  client->others++;
  *out = post;
  return IDEM_OK;
}

idem_status idem__http_client_stream(idem__http_client *client, bool needed) {
  idem__http_post *post;
  if (client->stream) return IDEM_E_EXISTS;
  idem_status status = add_post(client, POST_STREAM, &post);
  if (status != IDEM_OK) return status;
  client->stream = post;
  client->needs_stream = needed;
  idem__http_ask what = {.method = "GET", .accept = "text/event-stream", .standing = true};
  if (ask(post, &what)) return IDEM_OK;
  end_post(post);
  return IDEM_E_SYS;
}

idem_status idem__http_client_goodbye(idem__http_client *client) {
  idem__http_post *post;
  idem_status status = add_post(client, POST_GOODBYE, &post);
  if (status != IDEM_OK) return status;
  if (!ask(post, &(idem__http_ask){.method = "DELETE"})) end_post(post);
  return IDEM_OK;
}

void idem__http_client_release(idem__http_client *client) { send_queue(client); }

unsigned idem__http_post_refusals(const idem__http_post *post) { return post->refusals; }

uint64_t idem__http_post_turn(const idem__http_post *post) { return post->turn; }
uint64_t idem__http_client_turns(const idem__http_client *client) { return client->turns; }

void idem__http_post_again(idem__http_post *post) {
  post->parked = false;
  if (!ask_with_message(post)) end_post(post);
}

void idem__http_post_give_up(idem__http_post *post, const idem__http_outcome *outcome) {
  post->parked = false;
  if (post->call && !still_pending(post)) {
    end_post(post);
    return;
  }
  fail_http(post, outcome);
  end_post(post);
}

/* --------------------------------------------------------------------- the life */

idem_status idem__http_client_new(const idem__http_client_opts *opts, idem__http_client **out) {
  idem__http_client *client = idem__calloc(opts->alloc, sizeof *client);
  *out = NULL;
  if (!client) return IDEM_E_NOMEM;
  client->opts = *opts;
  client->alloc = idem__alloc_or_default(opts->alloc);
  client->deadline_ms = UINT64_MAX;
  if (!client->opts.max_requests) client->opts.max_requests = 32;
  if (!client->opts.retry_ms) client->opts.retry_ms = 1000;
  if (!client->opts.retries) client->opts.retries = 5;
  idem__list_init(&client->queue);
  idem__list_init(&client->posts);
  *out = client;
  if (hooks_of(client)->start) hooks_of(client)->start(opts->hooks_user, client);
  return IDEM_OK;
}

static void free_all(idem__list *list) {
  idem__list *node = list->next;
  while (node != list) {
    idem__http_post *post = IDEM__CONTAINER(node, idem__http_post, link);
    node = node->next;
    free_post(post);
  }
}

void idem__http_client_free(idem__http_client *client) {
  if (!client) return;
  free_all(&client->queue);
  free_all(&client->posts);
  idem_alloc alloc = client->alloc;
  idem__free(&alloc, client);
}
