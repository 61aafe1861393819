/* carry.c - what a client says to one process of a store and another must hear: answers to a question of its session go to the
 * process that asked, messages of 2024-11-05's transport to the one that has the stream, both as letters (letters.c);
 * cancellations to whichever has the request, and whether anybody answers on a stream to who would, as news, which every process hears. See
 * docs/internals/mcp_http.md. */
#include "get_stream.h"
#include "http/endpoint.h"
#include "serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK IDEM__NEWS_CARRIED
#define LEAD (1 + IDEM__SESSION_ID)

/* Numbers of questions say who asked: each node counts from its own. */
#define NODE_SHIFT 28

/* A letter's first byte. */
#define ANSWER 'a'
#define MESSAGE 'm'
#define MESSAGE_BYTES                                                                              \
  ((size_t)1 << 30) /* of one and what goes with it: what was posted was bounded */

uint64_t idem__carry_first_call(const idem__session_table *table) {
  return 1 + ((uint64_t)idem__node_number(table->opts.server) << NODE_SHIFT);
}

/* ------------------------------------------------------------------- answers */

static idem_status write_answer(idem_buf *text, const idem__message *message) {
  static const char kind = ANSWER;
  idem_status status = idem_buf_put(text, &kind, 1);
  return status == IDEM_OK ? idem__carry_write(text, message) : status;
}

idem__carry_end idem__carry_response(idem__mcp_serving *serving, const idem__message *message) {
  const idem_server *server = serving->endpoint->worker->server;
  uint64_t id = (uint64_t)message->id.integer;
  uint32_t node = id ? (uint32_t)((id - 1) >> NODE_SHIFT) : 0;
  idem_buf text;
  if (!node || node == idem__node_number(server)) return IDEM__CARRY_NOBODY;
  idem_buf_init(&text, &serving->endpoint->alloc, MESSAGE_BYTES);
  idem_status status = write_answer(&text, message);
  void *awaited = status == IDEM_OK ? idem__serving_await(serving) : NULL;
  if (awaited)
    idem__letter_send(
        serving->endpoint,
        &(idem__letter){
            .node = node, .session = serving->session->id, .text = text.data, .len = text.len},
        idem__serving_confirmed, awaited);
  idem_buf_deinit(&text);
  return awaited ? IDEM__CARRY_SENT : IDEM__CARRY_NO_ROOM;
}

/* ------------------------------------------------------------- cancellations */

static idem_status write_cancel(idem_buf *name, const idem__http_session *session,
                                const idem__id *id) {
  static const char mark = MARK;
  idem_status status = idem_buf_put(name, &mark, 1);
  if (status == IDEM_OK) status = idem_buf_put(name, session->id, IDEM__SESSION_ID);
  if (status == IDEM_OK) status = idem_buf_puts(name, "{\"cancel\":");
  if (status == IDEM_OK) status = idem_buf_put(name, id->raw, id->raw_len);
  return status == IDEM_OK ? idem_buf_puts(name, "}") : status;
}

/* Where too many lie there already it was told all the same. */
static void on_left(const idem__store_answer *answer, void *user) {
  bool full = answer->status == IDEM_E_LIMIT || answer->status == IDEM_E_NOMEM;
  idem__serving_confirmed(full ? &(idem__store_answer){.status = IDEM_OK} : answer, user);
}

/* For whoever cannot hear it now. */
static void leave_cancel(idem__mcp_serving *serving, const idem_buf *name) {
  void *awaited = idem__serving_await(serving);
  idem__letter letter = {
      .session = serving->session->id, .text = name->data + LEAD, .len = name->len - LEAD};
  if (awaited) idem__letter_leave(serving->endpoint, &letter, on_left, awaited);
}

/* Acknowledged when it was told, and lies there; an id that is longer than news may be is refused. */
void idem__carry_cancel(idem__mcp_serving *serving, const idem__id *id) {
  const idem__http_session *session = serving->session;
  idem_buf name;
  if (!idem__node_number(session->table->opts.server)) return;
  idem_buf_init(&name, &session->table->alloc, IDEM__STORE_NAME_MAX);
  bool written = write_cancel(&name, session, id) == IDEM_OK;
  void *awaited = written ? idem__serving_await(serving) : NULL;
  idem__store_op op = {.verb = IDEM__STORE_TELL,
                       .space = IDEM__STORE_NEWS,
                       .name = name.data,
                       .name_len = name.len,
                       .done = idem__serving_confirmed,
                       .user = awaited};
  serving->unavailable |= !awaited;
  if (awaited) leave_cancel(serving, &name); /* first: who cannot hear looks when it can */
  if (awaited) idem__store_submit(session->table->store, serving->endpoint->queue, &op, NULL);
  idem_buf_deinit(&name);
}

/* ------------------------------------------------------------------- streams */

/* Nobody waits for it: who wants to know asks again. */
void idem__carry_ask_stream(idem__mcp_endpoint *endpoint, const idem__http_session *session,
                            uint64_t stream) {
  char name[LEAD + 40];
  int len = snprintf(name, sizeof name, "%c%s{\"stream\":\"%llx\"}", MARK, session->id,
                     (unsigned long long)stream);
  idem__store_op op = {
      .verb = IDEM__STORE_TELL, .space = IDEM__STORE_NEWS, .name = name, .name_len = (size_t)len};
  idem__store_submit(session->table->store, endpoint->queue, &op, NULL);
}

static bool hear_stream(idem__session_table *table, const char *session, const char *text,
                        size_t len) {
  static const char lead[] = "{\"stream\":\"";
  char digits[20];
  size_t count = len > sizeof lead - 1 ? len - (sizeof lead - 1) : 0;
  if (count >= sizeof digits || !count || memcmp(text, lead, sizeof lead - 1) != 0) return false;
  memcpy(digits, text + sizeof lead - 1, count);
  digits[count] = '\0';
  idem__stream_asked(table, session, strtoull(digits, NULL, 16));
  return true;
}

/* ------------------------------------------------------------------- messages */

static void write_grant(idem__writer *writer, const idem__grant *grant) {
  char ends[24];
  if (!grant) return;
  snprintf(ends, sizeof ends, "%llu", (unsigned long long)grant->ends_s);
  idem__write_key(writer, "grant");
  idem__write_object(writer);
  idem__write_member_text(writer, "principal", grant->principal);
  idem__write_member_text(writer, "scope", grant->scope);
  idem__write_member_text(writer, "ends", ends);
  if (grant->logged) idem__write_member_text(writer, "logged", grant->logged);
  idem__write_member_value(writer, "claims", yyjson_doc_get_root(grant->claims));
  idem__write_object_end(writer);
}

/* A line of who sent it, which was checked there, and the message as it came. */
idem_status idem__carry_sse_write(idem_buf *out, const idem__sse_message *message) {
  static const char kind = MESSAGE;
  char client[2 * sizeof message->client.bytes + 1];
  idem__text_hex(client, message->client.bytes, sizeof message->client.bytes);
  idem_status status = idem_buf_put(out, &kind, 1);
  if (status != IDEM_OK) return status;
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "principal", message->principal);
  idem__write_member_text(&writer, "client", client);
  if (message->key.at) idem__write_key(&writer, "key");
  if (message->key.at) idem__write_string(&writer, message->key.at, message->key.len);
  write_grant(&writer, message->grant);
  idem__write_object_end(&writer);
  if (writer.status == IDEM_OK) writer.status = idem_buf_puts(out, "\n");
  return writer.status == IDEM_OK ? idem_buf_put(out, message->body.at, message->body.len)
                                  : writer.status;
}

/* What is no JSON, or has numbers that no double holds, is not for want of memory, and would never be read. */
static yyjson_doc *read_json(const idem_alloc *alloc, const char *text, size_t len,
                             yyjson_read_flag flags, bool *no_memory) {
  yyjson_alc alc = idem__json_alc(alloc);
  yyjson_read_err error = {.code = YYJSON_READ_SUCCESS};
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text, len, flags, &alc, &error);
  *no_memory = !doc && error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION;
  return doc;
}

/* What the token said that it came with; NULL: there was none, or no memory. */
static idem__grant *read_grant(const idem_alloc *alloc, yyjson_val *from) {
  yyjson_val *claims = yyjson_obj_get(from, "claims");
  const char *principal = yyjson_get_str(yyjson_obj_get(from, "principal"));
  const char *scope = yyjson_get_str(yyjson_obj_get(from, "scope"));
  idem_buf text;
  idem_buf_init(&text, alloc, MESSAGE_BYTES);
  idem__writer writer = idem__writer_on(&text);
  idem__write_value(&writer, claims);
  bool written = claims && writer.status == IDEM_OK, no_memory;
  yyjson_doc *doc =
      written ? read_json(alloc, text.data, text.len, YYJSON_READ_NUMBER_AS_RAW, &no_memory) : NULL;
  idem_buf_deinit(&text);
  if (!doc || !principal || !scope) {
    yyjson_doc_free(doc);
    return NULL;
  }
  const char *ends = yyjson_get_str(yyjson_obj_get(from, "ends"));
  idem__grant *grant =
      idem__grant_new(alloc, principal, scope, doc, ends ? strtoull(ends, NULL, 10) : 0);
  yyjson_val *logged = yyjson_obj_get(from, "logged");
  if (grant && yyjson_is_str(logged) &&
      idem__grant_keep_logged(grant, yyjson_get_str(logged), yyjson_get_len(logged)) != IDEM_OK) {
    idem__grant_unref(grant);
    return NULL;
  }
  return grant;
}

static idem__ip read_client(yyjson_val *value) {
  const char *digits = yyjson_get_str(value);
  idem__ip client = {{0}};
  if (yyjson_get_len(value) != 2 * sizeof client.bytes) return client;
  for (size_t i = 0; i < 2 * sizeof client.bytes; i++) {
    int digit = digits[i] <= '9' ? digits[i] - '0' : digits[i] - 'a' + 10;
    client.bytes[i / 2] = (uint8_t)(client.bytes[i / 2] << 4 | (digit & 15));
  }
  return client;
}

/* As HTTP's driver has it. The table's may be long ago: it is that of the last request for a session. */
static uint64_t now_ms(const idem__mcp_endpoint *endpoint) {
  const idem__http_rpc_opts *opts = &endpoint->rpc->opts;
  return opts->now_ns ? opts->now_ns(opts->clock_ctx) / 1000000u
                      : atomic_load(&endpoint->table->now_ms);
}

/* One whose grant cannot be read must not be taken for one that needs none. */
static idem__carry_open_end post(idem__mcp_endpoint *endpoint, const idem__sse_message *message,
                                 bool granted) {
  uint16_t status = granted && !message->grant ? 503 : idem__sse_post_taken(endpoint, message);
  if (status == 202) return IDEM__CARRY_OPENED;
  return status == 404 ? IDEM__CARRY_STRANGE : IDEM__CARRY_AGAIN;
}

static idem__carry_open_end open_message(idem__mcp_endpoint *endpoint, const char *session,
                                         const char *text, size_t len) {
  const char *line = memchr(text, '\n', len);
  size_t head = line ? (size_t)(line - text) : 0;
  bool no_memory;
  yyjson_doc *doc = read_json(&endpoint->alloc, text, head, YYJSON_READ_NUMBER_AS_RAW, &no_memory);
  yyjson_val *root = yyjson_doc_get_root(doc), *grant = yyjson_obj_get(root, "grant");
  yyjson_val *key = yyjson_obj_get(root, "key");
  const char *principal = yyjson_get_str(yyjson_obj_get(root, "principal"));
  idem__carry_open_end came = no_memory ? IDEM__CARRY_AGAIN : IDEM__CARRY_STRANGE;
  if (principal) {
    idem__sse_message message = {
        .session = session,
        .principal = principal,
        .client = read_client(yyjson_obj_get(root, "client")),
        .now_ms = now_ms(endpoint),
        .grant = grant ? read_grant(&endpoint->worker->server->alloc, grant) : NULL,
        .key = {yyjson_get_str(key), yyjson_get_len(key)},
        .body = {line + 1, (size_t)(text + len - line - 1)}};
    came = post(endpoint, &message, grant != NULL);
    idem__grant_unref(message.grant);
  }
  yyjson_doc_free(doc);
  return came;
}

/* ------------------------------------------------------------------- hearing */

static idem__http_session *find(idem__session_table *table, const char *id) {
  idem__session_table_lock(table);
  idem__http_session *session = idem_map_get(&table->by_id, id, IDEM__SESSION_ID);
  if (session) idem__http_session_hold(session);
  idem__session_table_unlock(table);
  return session;
}

static idem__carry_open_end open_answer(idem__mcp_endpoint *endpoint, const char *id,
                                        const char *text, size_t len) {
  idem__http_session *session = find(endpoint->table, id);
  bool no_memory = false;
  yyjson_doc *doc =
      session ? read_json(&endpoint->alloc, text, len, YYJSON_READ_BIGNUM_AS_RAW, &no_memory)
              : NULL;
  idem_status status = no_memory ? IDEM_E_NOMEM : IDEM_E_NOTFOUND;
  int64_t number;
  if (doc && idem__json_get_int(yyjson_obj_get(yyjson_doc_get_root(doc), "id"), &number))
    status = idem__carried_answer(session, (uint64_t)number, text, len);
  yyjson_doc_free(doc);
  if (session) idem__http_session_unref(session);
  if (status == IDEM_OK) return IDEM__CARRY_OPENED;
  return status == IDEM_E_NOTFOUND ? IDEM__CARRY_STRANGE : IDEM__CARRY_AGAIN;
}

idem__carry_open_end idem__carry_open(idem__mcp_endpoint *endpoint, const char *session,
                                      const char *text, size_t len) {
  if (len && text[0] == ANSWER) return open_answer(endpoint, session, text + 1, len - 1);
  if (len && text[0] == MESSAGE) return open_message(endpoint, session, text + 1, len - 1);
  return IDEM__CARRY_STRANGE;
}

static void hear_cancel(idem__http_session *session, const char *text, size_t len) {
  static const char lead[] = "{\"cancel\":";
  bool no_memory;
  yyjson_doc *doc =
      read_json(&session->table->alloc, text, len, YYJSON_READ_BIGNUM_AS_RAW, &no_memory);
  yyjson_val *cancel = yyjson_obj_get(yyjson_doc_get_root(doc), "cancel");
  if (cancel && len > sizeof lead) {
    idem__id id;
    idem__id_read(cancel, text + sizeof lead - 1, len - sizeof lead, &id);
    idem__carried_cancel(session, &id);
  }
  yyjson_doc_free(doc);
}

void idem__carry_hear(idem__session_table *table, const char *id, const char *text, size_t len) {
  idem__http_session *session = find(table, id);
  if (!session) return;
  hear_cancel(session, text, len);
  idem__http_session_unref(session);
}

void idem__carry_on_news(const idem__store_change *change, void *user) {
  bool carried =
      change->event == IDEM__STORE_WAS_TOLD && change->name_len > LEAD && change->name[0] == MARK;
  if (!carried) return;
  const char *text = change->name + LEAD;
  size_t len = change->name_len - LEAD;
  if (!hear_stream(user, change->name + 1, text, len))
    idem__carry_hear(user, change->name + 1, text, len);
}
