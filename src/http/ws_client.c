/* ws_client.c - a conn behind a WebSocket, from the asking side (RFC 6455 section 4.1).
 * The answer to the handshake is believed only if it proves that the server has read the question:
 * 101, both upgrade headers, the digest of our key, and nothing we did not ask for.
 * See docs/internals/http.md. */
#include "ws_client.h"

#include "http_client.h"

#include <stdio.h>
#include <string.h>

#define HEAD_BYTES ((size_t)16 * 1024)
#define REFUSAL_BYTES ((size_t)4096) /* of what a server says beside its status */
#define SAID_BYTES 300u              /* of that are told */
#define MOST_LIMITS 4u /* times the limit: what a message that comes fast enough may take */
#define OUT_BYTES ((size_t)64 * 1024) /* queued frames; then the conn keeps its output */

struct idem__ws_client {
  idem__ws_client_opts opts;
  idem_alloc alloc;
  idem__websocket *socket; /* NULL until the handshake has succeeded */
  idem_buf head;           /* the answer as far as it has come; of a refusal, its body */
  size_t refusal_len;      /* bytes of such a body to wait for; 0: none */
  char accept[IDEM__WEBSOCKET_ACCEPT];
  char fault[IDEM__WS_FAULT];
  bool leaving; /* goodbye was said */
  bool ended;   /* the conn has been told that nothing more will come */
};

/* ------------------------------------------------------------------- the question */

static bool reserved(const char *header) {
  static const char *const names[] = {"Host",
                                      "Upgrade",
                                      "Connection",
                                      "Sec-WebSocket-Key",
                                      "Sec-WebSocket-Version",
                                      "Sec-WebSocket-Protocol",
                                      "Sec-WebSocket-Extensions",
                                      "Content-Length",
                                      "Transfer-Encoding"};
  size_t len = strcspn(header, ":");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (idem__text_equal_nocase(header, len, names[i], strlen(names[i]))) return true;
  return !header[len] || !len || strpbrk(header, "\r\n");
}

bool idem__ws_client_may_send(const char *const *headers) {
  for (; headers && *headers; headers++)
    if (reserved(*headers)) return false;
  return true;
}

static idem_status put_headers(idem_buf *out, const char *const *headers) {
  idem_status status = idem__ws_client_may_send(headers) ? IDEM_OK : IDEM_E_INVAL;
  for (; status == IDEM_OK && headers && *headers; headers++) {
    status = idem_buf_put(out, *headers, strlen(*headers));
    if (status == IDEM_OK) status = idem_buf_puts(out, "\r\n");
  }
  return status;
}

static idem_status put_question(idem__ws_client *client) {
  const idem__ws_client_opts *opts = &client->opts;
  uint8_t nonce[16];
  char key[24];
  idem_buf text;
  opts->random(opts->random_ctx, nonce, sizeof nonce);
  idem_buf_fixed(&text, key, sizeof key);
  idem_base64_encode(&text, nonce, sizeof nonce, IDEM_BASE64_STANDARD);
  idem__websocket_accept((idem__view){key, sizeof key}, client->accept);
  idem_status status = idem_buf_printf(
      opts->out,
      "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %.24s\r\nUser-Agent: idem/" IDEM_VERSION
      "\r\n",
      opts->target, opts->host, key);
  if (status == IDEM_OK) status = put_headers(opts->out, opts->headers);
  return status == IDEM_OK ? idem_buf_puts(opts->out, "\r\n") : status;
}

/* --------------------------------------------------------------------- the answer */

static idem_status refuse(idem__ws_client *client, const char *why) {
  snprintf(client->fault, sizeof client->fault, "%s", why);
  return IDEM_E_PROTO;
}

/* The next line without its end; false: it is the empty one. */
static bool next_line(idem__view *head, idem__view *line) {
  const char *end = memchr(head->at, '\n', head->len);
  if (!end) return false;
  *line = (idem__view){head->at, (size_t)(end - head->at)};
  head->len -= line->len + 1;
  head->at = end + 1;
  if (line->len && line->at[line->len - 1] == '\r') line->len--;
  return line->len > 0;
}

static bool lists(idem__view value, const char *wanted) {
  idem__view element;
  while (idem__view_next(&value, &element))
    if (idem__view_is(element, wanted, strlen(wanted))) return true;
  return false;
}

/* 0: it is no status line. */
static int status_of(idem__view line) {
  int status = 0;
  if (line.len < 12 || memcmp(line.at, "HTTP/1.1 ", 9) != 0) return 0;
  for (size_t i = 9; i < 12; i++) {
    if (line.at[i] < '0' || line.at[i] > '9') return 0;
    status = status * 10 + (line.at[i] - '0');
  }
  return status;
}

static bool split_line(idem__view line, idem__view *name, idem__view *value) {
  const char *colon = memchr(line.at, ':', line.len);
  if (!colon) return false;
  *name = (idem__view){line.at, (size_t)(colon - line.at)};
  *value = idem__view_trim((idem__view){colon + 1, line.len - name->len - 1});
  return true;
}

/* How much of a body to wait for: as much as its head says, and no more than is read. */
static size_t length_said(idem__view head) {
  idem__view line, name, value;
  size_t len = 0;
  while (next_line(&head, &line)) {
    if (!split_line(line, &name, &value) || !idem__view_eq(name, "content-length")) continue;
    for (size_t i = 0; i < value.len && idem__is_digit(value.at[i]) && len < REFUSAL_BYTES; i++)
      len = len * 10 + (size_t)(value.at[i] - '0');
  }
  return len < REFUSAL_BYTES ? len : REFUSAL_BYTES;
}

static idem_status judge_status(idem__ws_client *client, idem__view line, idem__view head) {
  int status = status_of(line);
  if (!status) return refuse(client, "the answer is not HTTP/1.1");
  if (status == 101) return IDEM_OK;
  const char *words = idem__http_reason(status);
  client->refusal_len = length_said(head);
  if (words)
    snprintf(client->fault, sizeof client->fault, "HTTP %s", words);
  else
    snprintf(client->fault, sizeof client->fault, "HTTP %d", status);
  return IDEM_E_PROTO;
}

static idem_status judge_head(idem__ws_client *client, size_t len) {
  idem__view head = {client->head.data, len}, line;
  bool upgrade = false, connection = false, digest = false;
  if (!next_line(&head, &line)) return refuse(client, "the answer is not HTTP/1.1");
  idem_status status = judge_status(client, line, head);
  if (status != IDEM_OK) return status;
  while (next_line(&head, &line)) {
    idem__view name, value;
    if (!split_line(line, &name, &value)) return refuse(client, "a header without a colon");
    if (idem__view_eq(name, "upgrade")) upgrade |= lists(value, "websocket");
    if (idem__view_eq(name, "connection")) connection |= lists(value, "upgrade");
    if (idem__view_eq(name, "sec-websocket-accept"))
      digest = value.len == sizeof client->accept &&
               memcmp(value.at, client->accept, sizeof client->accept) == 0;
    if (idem__view_eq(name, "sec-websocket-extensions") ||
        idem__view_eq(name, "sec-websocket-protocol"))
      return refuse(client, "the server chose what was not offered");
  }
  return upgrade && connection && digest ? IDEM_OK : refuse(client, "the handshake is not proven");
}

/* ---------------------------------------------------------------------- a refusal */

/* The message of a JSON-RPC error, else what came. */
static idem__view words_of(const idem_buf *body, yyjson_doc *doc) {
  yyjson_val *error = yyjson_obj_get(yyjson_doc_get_root(doc), "error");
  yyjson_val *message = yyjson_obj_get(error, "message");
  if (yyjson_is_str(message)) return (idem__view){yyjson_get_str(message), yyjson_get_len(message)};
  idem__view words = {body->data, body->len};
  while (words.len && strchr("\r\n", words.at[words.len - 1])) words.len--;
  return words;
}

/* "HTTP 403 Forbidden: " and what the server says of it, in one line. */
static void tell_words(idem__ws_client *client) {
  yyjson_alc alc = idem__json_alc(&client->alloc);
  yyjson_doc *doc = yyjson_read_opts(client->head.data, client->head.len, 0, &alc, NULL);
  idem__view words = words_of(&client->head, doc);
  char said[4 * SAID_BYTES + 4];
  idem_buf line;
  idem_buf_fixed(&line, said, sizeof said - 1);
  size_t at = strlen(client->fault);
  if (words.len && idem_text_escape(&line, words.at, words.len, SAID_BYTES) == IDEM_OK)
    snprintf(client->fault + at, sizeof client->fault - at, ": %.*s", (int)line.len, line.data);
  yyjson_doc_free(doc);
}

static idem_status feed_refusal(idem__ws_client *client, const char *data, size_t len) {
  size_t missing = client->refusal_len - client->head.len;
  if (len && idem_buf_put(&client->head, data, len < missing ? len : missing) != IDEM_OK)
    return IDEM_E_NOMEM;
  if (client->head.len < client->refusal_len) return IDEM_OK;
  tell_words(client);
  client->refusal_len = 0;
  idem_buf_deinit(&client->head);
  return IDEM_E_PROTO;
}

/* ----------------------------------------------------------------------- messages */

static void on_message(idem__websocket *socket, const char *text, size_t len, void *user) {
  idem__ws_client *client = user;
  idem_status status = idem__conn_message(client->opts.conn, text, len, NULL);
  if (status != IDEM_OK && status != IDEM_E_CLOSED) idem__websocket_close(socket, 1011, NULL);
}

/* The server says no more, or is not listened to: what was asked of it ends. */
static void end_input(idem__ws_client *client) {
  if (client->ended) return;
  client->ended = true;
  idem_conn_feed_eof(client->opts.conn);
}

static void on_close(idem__websocket *socket, uint16_t code, void *user) {
  (void)socket, (void)code;
  end_input(user);
}

static idem_status put_bytes(void *user, const char *data, size_t len) {
  idem__ws_client *client = user;
  return idem_buf_put(client->opts.out, data, len);
}

static idem_status open_socket(idem__ws_client *client) {
  return idem__websocket_new(
      &(idem__websocket_opts){.client = true,
                              .message_bytes =
                                  idem_conn_policy(client->opts.conn)->limits.message_bytes,
                              .on_message = on_message,
                              .on_close = on_close,
                              .output = put_bytes,
                              .random = client->opts.random,
                              .random_ctx = client->opts.random_ctx,
                              .user = client,
                              .alloc = &client->alloc},
      &client->socket);
}

/* A server that broke the rules has been told so with a close frame; its own is not waited for. */
static idem_status feed_frames(idem__ws_client *client, const char *data, size_t len) {
  idem_status status = idem__websocket_feed(client->socket, data, len);
  if (idem__websocket_closing(client->socket) && !client->leaving) end_input(client);
  return status;
}

/* Where the empty line ends; 0: it has not come. */
static size_t head_end(const idem_buf *head, size_t from) {
  for (size_t i = from > 3 ? from - 3 : 0; i + 4 <= head->len; i++)
    if (memcmp(head->data + i, "\r\n\r\n", 4) == 0) return i + 4;
  return 0;
}

static idem_status feed_head(idem__ws_client *client, const char *data, size_t len) {
  size_t before = client->head.len;
  size_t room = HEAD_BYTES - before, take = len < room ? len : room;
  idem_status status = idem_buf_put(&client->head, data, take);
  if (status != IDEM_OK) return status;
  size_t end = head_end(&client->head, before);
  if (!end) return take < len ? refuse(client, "the answer's head is too large") : IDEM_OK;
  status = judge_head(client, end);
  if (status == IDEM_OK) status = open_socket(client);
  idem_buf_deinit(&client->head);
  size_t used = end - before;
  if (client->refusal_len) return feed_refusal(client, data + used, len - used);
  if (status != IDEM_OK || used == len) return status;
  return feed_frames(client, data + used, len - used);
}

idem_status idem__ws_client_feed(idem__ws_client *client, const char *data, size_t len) {
  if (client->refusal_len) return feed_refusal(client, data, len);
  if (client->fault[0]) return IDEM_E_PROTO;
  return client->socket ? feed_frames(client, data, len) : feed_head(client, data, len);
}

uint64_t idem__ws_client_due(idem__ws_client *client, uint64_t now_ms, uint64_t limit_ms) {
  if (!client->socket) return UINT64_MAX;
  return idem__websocket_due(client->socket, now_ms, limit_ms, MOST_LIMITS * limit_ms);
}

idem_status idem__ws_client_pump(idem__ws_client *client) {
  idem_chunk chunk;
  idem_status status = IDEM_OK;
  if (!client->socket) return IDEM_OK;
  while (status == IDEM_OK && client->opts.out->len < OUT_BYTES &&
         idem_conn_next_chunk(client->opts.conn, &chunk)) {
    if (!idem__websocket_closing(client->socket))
      status = idem__websocket_send(client->socket, chunk.data, chunk.len);
    idem_chunk_free(&chunk);
  }
  if (status == IDEM_OK && !client->leaving && idem_conn_done(client->opts.conn)) {
    client->leaving = true;
    idem__websocket_close(client->socket, 1000, NULL);
  }
  return status;
}

bool idem__ws_client_open(const idem__ws_client *client) { return client->socket != NULL; }
const char *idem__ws_client_fault(const idem__ws_client *client) { return client->fault; }

/* ----------------------------------------------------------------------- the life */

idem_status idem__ws_client_new(const idem__ws_client_opts *opts, idem__ws_client **out) {
  idem__ws_client *client = idem__calloc(opts->alloc, sizeof *client);
  *out = NULL;
  if (!client) return IDEM_E_NOMEM;
  client->opts = *opts;
  client->alloc = idem__alloc_or_default(opts->alloc);
  idem__conn_keep_batches_whole(opts->conn);
  idem_buf_init(&client->head, &client->alloc, HEAD_BYTES);
  idem_status status = put_question(client);
  if (status != IDEM_OK) {
    idem__ws_client_free(client);
    return status;
  }
  *out = client;
  return IDEM_OK;
}

void idem__ws_client_free(idem__ws_client *client) {
  if (!client) return;
  idem_alloc alloc = client->alloc;
  idem__websocket_free(client->socket);
  idem_buf_deinit(&client->head);
  idem__free(&alloc, client);
}
