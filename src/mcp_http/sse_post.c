/* sse_post.c - what is posted to a stream of 2024-11-05's transport: it goes to the stream's thread, or as a letter to the
 * process that has the stream. See sse_2024.c. */
#include "http/endpoint.h"
#include "mcp_http.h"
#include "mcp_server/wait.h"

#include <stdio.h>
#include <string.h>

#define NODE_DIGITS 6                 /* of a stream's id, where several processes share a store */
#define TAG_DIGITS 6                  /* behind them: who may post, so that any process can tell */
#define LETTER_ROOM ((size_t)1 << 20) /* for who posted it: a principal, what a token says */
#define ID_ROOM 256                   /* for a request's id in a refusal */

/* --------------------------------------------------------------------- ids */

/* Of the id's random rest and of whose the stream is. It keeps no secret: who is refused for it would be refused by the stream's own process. */
static void make_tag(const char *id, const char *principal, char tag[TAG_DIGITS + 1]) {
  const char *rest = id + NODE_DIGITS + TAG_DIGITS;
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256 sha;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, rest, IDEM__SESSION_ID - NODE_DIGITS - TAG_DIGITS);
  idem_sha256_add(&sha, principal, strlen(principal));
  idem_sha256_end(&sha, digest);
  idem__text_hex(tag, digest, TAG_DIGITS / 2);
}

/* Where others share the store it says whose the stream is: which process has it, and who may post. */
void idem__sse_make_id(const idem__session_table *table, const char *principal,
                       char id[IDEM__SESSION_ID + 1]) {
  uint32_t node = idem__node_number(table->opts.server);
  char digits[NODE_DIGITS + 1], tag[TAG_DIGITS + 1];
  idem__session_table_make_id(table, id);
  if (!node) return;
  snprintf(digits, sizeof digits, "%06x", (unsigned)node & 0xffffffu);
  make_tag(id, principal, tag);
  memcpy(id, digits, NODE_DIGITS);
  memcpy(id + NODE_DIGITS, tag, TAG_DIGITS);
}

/* The value of sessionId in a query; absent otherwise. */
static idem__view session_of(idem__view query) {
  static const char key[] = "sessionId=";
  const char *at = query.at, *next;
  for (size_t left = at ? query.len : 0; left; at = next + 1) {
    next = memchr(at, '&', left);
    size_t len = next ? (size_t)(next - at) : left;
    if (len > sizeof key - 1 && memcmp(at, key, sizeof key - 1) == 0)
      return (idem__view){at + sizeof key - 1, len - (sizeof key - 1)};
    if (!next) break;
    left -= len + 1;
  }
  return (idem__view){NULL, 0};
}

/* ------------------------------------------------------ posting elsewhere */

/* The id of the one request that was posted, as it stands there; "": none. */
static void find_id(const idem__mcp_endpoint *endpoint, idem__view body, char out[ID_ROOM]) {
  const idem_policy *policy = &endpoint->worker->server->policy;
  idem_messages *messages = NULL;
  out[0] = '\0';
  if (idem_messages_read(body.at, body.len, policy, &endpoint->alloc, &messages) != IDEM_OK) return;
  const idem_message *first = idem_messages_at(messages, 0);
  bool alone = !idem_messages_is_batch(messages) && first->kind == IDEM_MESSAGE_REQUEST;
  if (alone && first->id && first->id_len < ID_ROOM) {
    memcpy(out, first->id, first->id_len);
    out[first->id_len] = '\0';
  }
  idem_messages_free(messages);
}

static void answer(idem_http_exchange *exchange, uint16_t status, const char *reason,
                   const char *id) {
  idem__http_refusal refusal = {.status = status, .reason = reason};
  if (status == 404) refusal.cause = "the session is unknown or has ended";
  if (status == 409) refusal.code = IDEM_RPC_INTERNAL_ERROR;
  if (status == 409) refusal.cause = "nobody knows whether this arrived";
  if (status == 409) refusal.hint = "if it did, its answer comes on the stream";
  refusal.id = *id ? id : NULL;
  refusal.id_len = strlen(id);
  if (status != 202)
    idem__http_refuse(exchange, &refusal, NULL);
  else
    idem__http_respond(
        exchange,
        &(idem__http_answer){.status = 202, .type = "text/plain", .body = "Accepted", .len = 8});
}

/* A POST that is acknowledged when the store has its message for the process that has the stream. Outlives a peer that
 * goes. */
typedef struct posting {
  idem_alloc alloc;
  idem_http_exchange *exchange; /* NULL: nobody waits any more */
  char id[ID_ROOM];
} posting;

/* It may be carried out and answered on the stream: an error with its id here would be a second answer, and "try again" a second run. */
static void answer_unknown(idem_http_exchange *exchange) {
  answer(exchange, 409, "outcome-unknown", "");
}

static void answer_away(idem_http_exchange *exchange, const char *id) {
  idem__http_refusal refusal = idem__mcp_store_away;
  refusal.id = *id ? id : NULL;
  refusal.id_len = strlen(id);
  idem__http_refuse(exchange, &refusal, NULL);
}

static void on_posted(const idem__store_answer *said, void *user) {
  posting *self = user, copy = *self;
  idem__free(&copy.alloc, self);
  if (!copy.exchange) return;
  if (said->status == IDEM_E_NOTFOUND)
    answer(copy.exchange, 404, "owner-gone", copy.id); /* its session was the stream */
  else if (idem__is_unknown(said->status) && !idem__store_did_not(said))
    answer_unknown(copy.exchange);
  else if (said->status == IDEM_OK)
    answer(copy.exchange, 202, NULL, copy.id);
  else
    answer_away(copy.exchange, copy.id);
}

static void on_posting_abort(idem_http_exchange *exchange, void *user) {
  (void)exchange;
  ((posting *)user)->exchange = NULL;
}

static void on_posting_stop(void *user, idem__http_stop how) {
  posting *self = user;
  idem_http_exchange *exchange = self->exchange;
  if (how == IDEM__HTTP_STOP_SOON || !exchange) return;
  self->exchange = NULL;
  answer_unknown(exchange);
}

static void post_letter(idem__mcp_endpoint *endpoint, idem_http_exchange *exchange,
                        const idem__letter *letter, const char *id) {
  posting *self = idem__calloc(&endpoint->alloc, sizeof *self);
  if (!self) {
    answer(exchange, 503, "unavailable", id);
    return;
  }
  self->alloc = endpoint->alloc;
  self->exchange = exchange;
  snprintf(self->id, sizeof self->id, "%s", id);
  idem__http_on_abort(exchange, on_posting_abort, self);
  idem__http_conn_on_stop(idem__http_exchange_conn(exchange), on_posting_stop, self);
  idem__letter_send(endpoint, letter, on_posted, self);
}

/* The process that has the stream of this id; 0: it is ours, or nobody's, or another principal's. */
static uint32_t owner_of(const idem__mcp_endpoint *endpoint, const char *id,
                         const char *principal) {
  uint32_t own = idem__node_number(endpoint->worker->server);
  char digits[NODE_DIGITS + 1] = "", tag[TAG_DIGITS + 1];
  memcpy(digits, id, NODE_DIGITS);
  if (!own || strspn(digits, "0123456789abcdef") != NODE_DIGITS) return 0;
  make_tag(id, principal, tag);
  if (memcmp(id + NODE_DIGITS, tag, TAG_DIGITS) != 0) return 0;
  uint32_t node = idem__node_number_of(digits);
  return node == own ? 0 : node;
}

static void post_far(idem__mcp_endpoint *endpoint, idem_http_exchange *exchange,
                     const idem__sse_message *message) {
  idem__letter letter = {.node = owner_of(endpoint, message->session, message->principal),
                         .session = message->session};
  char id[ID_ROOM];
  idem_buf text;
  find_id(endpoint, message->body, id);
  if (!letter.node) {
    answer(exchange, 404, "unknown-session", id);
    return;
  }
  idem_buf_init(&text, &endpoint->alloc, message->body.len + LETTER_ROOM);
  bool written = idem__carry_sse_write(&text, message) == IDEM_OK;
  letter.text = text.data;
  letter.len = text.len;
  if (written)
    post_letter(endpoint, exchange, &letter, id);
  else
    answer(exchange, 503, "unavailable", id);
  idem_buf_deinit(&text);
}

uint16_t idem__sse_post_taken(idem__mcp_endpoint *endpoint, const idem__sse_message *sent) {
  char id[ID_ROOM], text[1024];
  idem_buf error;
  uint16_t posted = idem__sse_post(endpoint, sent);
  if (posted != 503) return posted;
  find_id(endpoint, sent->body, id);
  if (!*id) return 503;
  idem__http_refusal refusal = {
      .status = 503, .reason = "unavailable", .id = id, .id_len = strlen(id)};
  const idem_policy *policy = &endpoint->worker->server->policy;
  idem_buf_fixed(&error, text, sizeof text);
  idem_status status =
      idem__http_put_error(&error, &refusal, policy->codes, idem__policy_names_causes(policy),
                           policy->unknown_id, policy->error_detail);
  idem__sse_message said = *sent;
  said.body = (idem__view){error.data, error.len};
  said.key = (idem__view){NULL, 0};
  said.refusal = true;
  return status == IDEM_OK ? idem__sse_post(endpoint, &said) : 503;
}

/* ------------------------------------------------------------------ posting */

/* Takes the message's token. Without one it goes the way of other POSTs, where it is refused with its
 * own id, now that there is none. */
static bool is_limited(const idem__mcp_endpoint *endpoint, idem_http_exchange *exchange,
                       const idem_http_request *request) {
  idem__limiter *limiter = endpoint->rpc->opts.limiter;
  uint32_t retry_s;
  if (!limiter || idem__limiter_take(limiter, idem__http_exchange_client(exchange),
                                     idem__http_exchange_now(exchange), &retry_s)) {
    return false;
  }
  idem__http_rpc_serve(exchange, request, endpoint->rpc);
  return true;
}

/* What no key has in it need not be carried as it is: it may be no text. */
static idem__view key_of(const idem_http_request *request) {
  idem__view key = idem__mcp_key(request);
  for (size_t i = 0; key.at && i < key.len; i++) {
    if (key.at[i] < ' ' || key.at[i] > '~') return (idem__view){"", 0};
  }
  return key;
}

void idem__mcp_serve_message(idem_http_exchange *exchange, const idem_http_request *request,
                             void *user) {
  idem__mcp_endpoint *endpoint = user;
  char principal[IDEM__PRINCIPAL];
  idem__view id = session_of(request->query);
  if (is_limited(endpoint, exchange, request)) return;
  idem__mcp_principal(idem__http_exchange_conn(exchange), request, principal);
  idem__session_table_see_time(endpoint->table, idem__http_exchange_now(exchange));
  idem__sse_message message = {.session = id.at,
                               .principal = principal,
                               .client = *idem__http_exchange_client(exchange),
                               .now_ms = idem__http_exchange_now(exchange),
                               .grant = idem__http_conn_grant(idem__http_exchange_conn(exchange)),
                               .key = key_of(request),
                               .body = request->body};
  uint16_t status = id.len == IDEM__SESSION_ID ? idem__sse_post(endpoint, &message) : 400;
  char request_id[ID_ROOM] = "";
  if (status >= 400 && status != 404) find_id(endpoint, request->body, request_id);
  if (status == 404)
    post_far(endpoint, exchange, &message);
  else
    answer(exchange, status == 400 ? 404 : status,
           status == 400 ? "unknown-session" : "unavailable", request_id);
}
