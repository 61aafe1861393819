/* http_client.c - each message a POST, looked after until nothing more comes of it: sent when there is room, its
 * stream taken up again when it breaks, cut off when nobody waits. What comes back is http_answer.c.
 * See docs/internals/http.md. */
#include "http_post.h"

#include <string.h>

#define AFTER_MS 1000 /* for an exchange to end by itself once nobody waits for it */
#define LOOK_MS 1000  /* how often calls that were cancelled are noticed at the latest */
#define REST_MS 100   /* at least, before a stream is taken up again, whatever it asks for */
#define EVENT_ID_BYTES 1024
#define LINES_BYTES 65536 /* of headers for one request */

/* ---------------------------------------------------------------- the outgoing */

/* The id of a call, 0 for anything else. */
static uint64_t call_of(const idem_chunk *chunk) {
  return chunk->what.kind == IDEM_OUTGOING_CALL ? chunk->what.call : 0;
}

static void free_post(idem__http_post *post) {
  idem__http_client *client = post->client;
  idem_list_remove(&post->link);
  if (client->stream == post) client->stream = NULL;
  if (idem__http_hooks_of(client)->gone)
    idem__http_hooks_of(client)->gone(client->opts.hooks_user, post);
  if (post->asking) client->opts.cancel(client->opts.user, post->handle);
  if (post->chunk.owner) idem_chunk_free(&post->chunk);
  if (post->parsing) idem__sse_parser_deinit(&post->parser);
  client->count--;
  idem__free(&client->alloc, post);
}

void idem__http_post_close(idem__http_post *post) {
  if (post->call)
    post->client->calls--;
  else
    post->client->others--;
  free_post(post);
}

void idem__http_post_fail(idem__http_post *post, idem_status status, const char *why) {
  idem__http_client *client = post->client;
  if (post->call)
    idem__call_fail(client->opts.conn, post->call, status, why);
  else if (post->kind == POST_MESSAGE)
    idem_logf(client->opts.log, IDEM_LOG_WARN, "a message was not delivered", "%s", why);
}

/* The protocol on top adds what it has to say, and says where. */
static idem_status prepare(idem__http_post *post, idem__http_ask *ask, idem_buf *lines) {
  const idem__http_client_opts *opts = &post->client->opts;
  const idem__http_hooks *hooks = idem__http_hooks_of(post->client);
  if (!hooks->prepare) return IDEM_OK;
  idem_status status = hooks->prepare(opts->hooks_user, idem__http_post_what(post), ask, lines);
  ask->lines = lines->data;
  ask->lines_len = lines->len;
  return status;
}

static bool ask(idem__http_post *post, idem__http_ask *what) {
  const idem__http_client_opts *opts = &post->client->opts;
  idem_buf lines;
  idem_buf_init(&lines, &post->client->alloc, LINES_BYTES);
  idem_status status = prepare(post, what, &lines);
  post->turn = ++post->client->turns;
  if (status == IDEM_OK) status = opts->send(opts->user, post, what, &post->handle);
  idem_buf_deinit(&lines);
  post->asking = status == IDEM_OK;
  post->streaming = post->held = false;
  if (!post->asking) idem__http_post_fail(post, status, idem_status_text(status));
  return post->asking;
}

bool idem__http_post_send(idem__http_post *post) {
  return ask(post, &(idem__http_ask){.method = "POST",
                                     .body = post->chunk.data,
                                     .len = post->chunk.len,
                                     .accept = "application/json, text/event-stream"});
}

static void drop(const idem__http_client *client, idem_chunk *chunk) {
  uint64_t call = call_of(chunk);
  idem_outgoing what = chunk->what;
  const idem__http_hooks *hooks = idem__http_hooks_of(client);
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
    idem_list_append(&client->queue, &post->link);
    client->count++;
  }
}

static bool has_room(const idem__http_post *post) {
  const idem__http_client *client = post->client;
  return (post->call ? client->calls : client->others) < client->opts.max_requests;
}

static void send_post(idem__http_post *post) {
  idem__http_client *client = post->client;
  idem_list_remove(&post->link);
  idem_list_append(&client->posts, &post->link);
  if (post->call)
    client->calls++;
  else
    client->others++;
  if (!idem__http_post_send(post)) idem__http_post_close(post);
}

static idem__http_verdict may_send(idem__http_post *post) {
  const idem__http_client *client = post->client;
  const idem__http_hooks *hooks = idem__http_hooks_of(client);
  if (!hooks->may_send) return IDEM__HTTP_GO;
  return hooks->may_send(client->opts.hooks_user, post, idem__http_post_what(post));
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
  for (idem_list *node = client->queue.next, *next; node != &client->queue; node = next) {
    idem__http_post *post = IDEM_CONTAINER(node, idem__http_post, link);
    next = node->next;
    if (post->call && !idem__call_pending(client->opts.conn, post->call))
      free_post(post);
    else
      send_if_allowed(post);
  }
}

/* --------------------------------------------------------------- broken streams */

bool idem__http_post_resumable(const idem__http_post *post) {
  size_t len = post->parsing ? post->parser.last_id.len : 0;
  if (post->kind == POST_STREAM) return post->opened && post->tries < post->client->opts.retries;
  return !post->client->cuts && len > 0 && len <= EVENT_ID_BYTES &&
         post->tries < post->client->opts.retries;
}

/* The call has no answer yet, so what came was no progress: a server that says `retry: 1` and sends
 * an event per stream, which counts as life, must not have us knock a thousand times a second. */
void idem__http_post_rest(idem__http_post *post, uint64_t now_ms) {
  uint64_t wait = post->parser.retry_ms ? post->parser.retry_ms : post->client->opts.retry_ms;
  if (wait > 60000) wait = 60000;
  post->tries++;
  wait *= post->tries;
  post->at_ms = now_ms + (wait < REST_MS ? REST_MS : wait);
}

/* The last event's id, if there was one that can be told. */
static const char *last_id(const idem__http_post *post, char id[EVENT_ID_BYTES + 1]) {
  const idem_buf *last = &post->parser.last_id;
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
  if (!ask(post, &what)) idem__http_post_close(post);
}

/* ------------------------------------------------------------------ looking after */

/* Something that was said and has no answer to wait for: neither a goodbye nor the end of the standing stream
 * may overtake it. */
static bool is_saying(const idem__http_client *client) {
  for (const idem_list *node = client->posts.next; node != &client->posts; node = node->next) {
    const idem__http_post *post = IDEM_CONTAINER(node, idem__http_post, link);
    if (post->kind == POST_MESSAGE && !post->call) return true;
  }
  return !idem_list_empty(&client->queue);
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
    idem__http_post_close(post);
  else if (!post->asking && !post->parked && post->at_ms <= now_ms)
    resume(post);
}

static idem__http_post *first_held(const idem__http_client *client) {
  for (const idem_list *node = client->posts.next; node != &client->posts; node = node->next) {
    idem__http_post *post = IDEM_CONTAINER(node, idem__http_post, link);
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
  const idem__http_hooks *hooks = idem__http_hooks_of(client);
  if (client->finished || !idem_conn_done(client->opts.conn) || is_saying(client)) return;
  client->finished = true;
  if (hooks->finish) hooks->finish(client->opts.hooks_user);
}

void idem__http_client_pump(idem__http_client *client, uint64_t now_ms) {
  let_go(client);
  take_output(client);
  for (idem_list *node = client->posts.next, *next; node != &client->posts; node = next) {
    next = node->next;
    look_at(IDEM_CONTAINER(node, idem__http_post, link), now_ms);
  }
  send_queue(client);
  say_goodbye(client);
  client->deadline_ms = UINT64_MAX;
  for (const idem_list *node = client->posts.next; node != &client->posts; node = node->next)
    note_deadline(client, IDEM_CONTAINER(node, idem__http_post, link), now_ms);
}

uint64_t idem__http_client_deadline(const idem__http_client *client) { return client->deadline_ms; }
size_t idem__http_client_posts(const idem__http_client *client) { return client->count; }

/* ----------------------------------------------------------- for a protocol on top */

void idem__http_client_cut(idem__http_client *client) { client->cuts = true; }
void idem__http_client_elsewhere(idem__http_client *client) { client->elsewhere = true; }

static idem_status add_post(idem__http_client *client, idem__http_post_kind kind,
                            idem__http_post **out) {
  idem__http_post *post = idem__calloc(&client->alloc, sizeof *post);
  if (!post) return IDEM_E_NOMEM;
  post->client = client;
  post->kind = kind;
  idem_list_append(&client->posts, &post->link);
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
  idem__http_post_close(post);
  return IDEM_E_SYS;
}

idem_status idem__http_client_goodbye(idem__http_client *client) {
  idem__http_post *post;
  idem_status status = add_post(client, POST_GOODBYE, &post);
  if (status != IDEM_OK) return status;
  if (!ask(post, &(idem__http_ask){.method = "DELETE"})) idem__http_post_close(post);
  return IDEM_OK;
}

void idem__http_client_release(idem__http_client *client) { send_queue(client); }

unsigned idem__http_post_refusals(const idem__http_post *post) { return post->refusals; }

uint64_t idem__http_post_turn(const idem__http_post *post) { return post->turn; }
uint64_t idem__http_client_turns(const idem__http_client *client) { return client->turns; }

void idem__http_post_again(idem__http_post *post) {
  post->parked = false;
  if (!idem__http_post_send(post)) idem__http_post_close(post);
}

void idem__http_post_give_up(idem__http_post *post, const idem__http_outcome *outcome) {
  post->parked = false;
  if (post->call && !idem__http_post_pending(post)) {
    idem__http_post_close(post);
    return;
  }
  idem__http_post_fail_http(post, outcome);
  idem__http_post_close(post);
}

/* --------------------------------------------------------------------- the life */

idem_status idem__http_client_new(const idem__http_client_opts *opts, idem__http_client **out) {
  idem__http_client *client = idem__calloc(opts->alloc, sizeof *client);
  *out = NULL;
  if (!client) return IDEM_E_NOMEM;
  client->opts = *opts;
  client->alloc = idem__alloc_or_default(opts->alloc);
  idem__conn_keep_batches_whole(opts->conn);
  client->deadline_ms = UINT64_MAX;
  if (!client->opts.max_requests) client->opts.max_requests = 32;
  if (!client->opts.retry_ms) client->opts.retry_ms = 1000;
  if (!client->opts.retries) client->opts.retries = 5;
  idem_list_init(&client->queue);
  idem_list_init(&client->posts);
  *out = client;
  if (idem__http_hooks_of(client)->start)
    idem__http_hooks_of(client)->start(opts->hooks_user, client);
  return IDEM_OK;
}

static void free_all(idem_list *list) {
  idem_list *node = list->next;
  while (node != list) {
    idem__http_post *post = IDEM_CONTAINER(node, idem__http_post, link);
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
