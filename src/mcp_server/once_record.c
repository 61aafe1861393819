/* once_record.c - keys as they come and as they are kept: which one a request carries, the name and the bytes of its
 * record. See once.h. */
#include "context.h"
#include "once.h"
#include "result.h"
#include "server.h"
#include "session.h"

#include <string.h>

/* ----------------------------------------------------------------- records */

#define RECORD_VERSION 1
typedef struct record_head {
  uint8_t version, state, is_error, unused;
  uint8_t digest[IDEM_SHA256_BYTES];
  char node[IDEM__NODE_ID];
} record_head;

idem_status idem__once_record_write(const idem__once_record *record, idem_buf *out) {
  record_head head = {
      .version = RECORD_VERSION, .state = (uint8_t)record->state, .is_error = record->is_error};
  memcpy(head.digest, record->digest, sizeof head.digest);
  memcpy(head.node, record->node, sizeof head.node);
  idem_status status = idem_buf_put(out, &head, sizeof head);
  return status == IDEM_OK ? idem_buf_put(out, record->text, record->len) : status;
}

bool idem__once_record_read(const char *bytes, size_t len, idem__once_record *out) {
  record_head head;
  if (len < sizeof head) return false;
  memcpy(&head, bytes, sizeof head);
  if (head.version != RECORD_VERSION || head.state >= IDEM__ONCE_STATES) return false;
  *out = (idem__once_record){.state = (idem__once_state)head.state,
                             .is_error = head.is_error != 0,
                             .text = bytes + sizeof head,
                             .len = len - sizeof head};
  memcpy(out->digest, head.digest, sizeof head.digest);
  memcpy(out->node, head.node, sizeof head.node);
  return true;
}

static void add_text(idem_sha256 *sha, const char *text, size_t len) {
  uint8_t size[8]; /* lengths keep neighbouring texts apart */
  for (size_t i = 0; i < sizeof size; i++) size[i] = (uint8_t)((uint64_t)len >> (56 - i * 8));
  idem_sha256_add(sha, size, sizeof size);
  idem_sha256_add(sha, text, len);
}

void idem__once_name_of(const char *principal, const char *method, const char *called,
                        size_t called_len, const idem__once_key *key,
                        uint8_t name[IDEM_SHA256_BYTES]) {
  idem_sha256 sha;
  idem_sha256_init(&sha);
  add_text(&sha, principal, strlen(principal));
  add_text(&sha, method, strlen(method));
  add_text(&sha, called, called_len);
  add_text(&sha, key->text, key->len);
  idem_sha256_end(&sha, name);
}

void idem__once_name(const idem__context *context, const char *called, size_t called_len,
                     const idem__once_key *key, uint8_t name[IDEM_SHA256_BYTES]) {
  idem__once_name_of(context->principal, context->method ? context->method->name : "", called,
                     called_len, key, name);
}

/* Not the principal itself, which may be longer than a group's name, or a secret. */
void idem__once_group(const char *principal, char group[IDEM__ONCE_GROUP + 1]) {
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256 sha;
  idem_sha256_init(&sha);
  add_text(&sha, principal, strlen(principal));
  idem_sha256_end(&sha, digest);
  idem__text_hex(group, digest, IDEM__ONCE_GROUP / 2);
}

/* --------------------------------------------------------------------- keys */

#define KEY_RULE "1 to 255 visible ASCII characters"

static bool refuse_key(idem__context *context, const char *reason, const char *sentence) {
  char text[IDEM__CAUSE], json[96];
  idem_buf data;
  idem_buf_fixed(&data, json, sizeof json);
  idem_buf_printf(&data, "{\"reason\":\"%s\"}", reason);
  const char *cause = idem__cause(context, text, "Invalid params: Idempotency-Key: %s", sentence);
  idem__refuse_for(context, 400, IDEM_RPC_INVALID_PARAMS, cause, data.data, data.len);
  return false;
}

/* Of the request's own POST, or beside a message that came to a stream's conn. */
static bool header_value(const idem__context *context, const char **value, size_t *len) {
  const idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  if (peer && peer->edge) return peer->edge->key && peer->edge->key(peer->edge_ctx, value, len);
  *value = idem__request_note(context->request);
  *len = *value ? strlen(*value) : 0;
  return *value != NULL;
}

bool idem__once_pass_batch(idem__context *context) {
  const char *value;
  size_t len;
  if (!idem__request_batched(context->request) || !header_value(context, &value, &len)) return true;
  return refuse_key(context, "key-on-batch", "a batch has none: its calls are several");
}

/* As a structured field has it, in quotes, or bare. */
static bool header_key(idem__context *context, idem__once_key *key) {
  const char *value;
  size_t len;
  if (!header_value(context, &value, &len)) return true;
  if (len >= 2 && value[0] == '"' && value[len - 1] == '"') {
    value++;
    len -= 2;
    if (memchr(value, '"', len) || memchr(value, '\\', len)) len = 0;
  }
  if (!idem__once_is_key(value, len)) return refuse_key(context, "bad-key", "expected " KEY_RULE);
  *key = (idem__once_key){value, len};
  return true;
}

bool idem__once_read_key(idem__context *context, bool header_alone, idem__once_key *key) {
  yyjson_val *meta = header_alone ? NULL : yyjson_obj_get(context->meta, IDEM__ONCE_META);
  const char *text = yyjson_get_str(meta);
  size_t len = yyjson_get_len(meta);
  *key = (idem__once_key){NULL, 0};
  if (!header_key(context, key)) return false;
  if (!meta) return true;
  if (!text || !idem__once_is_key(text, len)) {
    idem__reply_bad_param(context, "_meta." IDEM__ONCE_META, KEY_RULE, meta);
    return false;
  }
  if (key->text && (key->len != len || memcmp(key->text, text, len) != 0))
    return refuse_key(context, "key-mismatch", "the header differs from _meta");
  *key = (idem__once_key){text, len};
  return true;
}

bool idem__once_pass_repeat(idem__context *context, const idem__once_key *key, bool kept) {
  yyjson_val *store = yyjson_obj_get(context->meta, IDEM__ONCE_REPEAT);
  if (!store) return true;
  if (!yyjson_is_str(store) || !key->text) {
    idem__reply_bad_param(context, "_meta." IDEM__ONCE_REPEAT, "the name of a store, with a key",
                          store);
    return false;
  }
  char ours[IDEM__ONCE_STORE_ID + 1];
  idem__server_keys_name(context->server, ours);
  if (kept && yyjson_equals_str(store, ours)) return true;
  idem__once_refuse(context, kept ? IDEM__ONCE_FORGOTTEN : IDEM__ONCE_LOST);
  return false;
}

uint64_t idem__once_ttl(const idem__context *context) {
  uint64_t most = context->server->opts.key_ms;
  int64_t wanted;
  if (!idem__json_get_int(yyjson_obj_get(context->meta, IDEM__ONCE_KEY_MS), &wanted)) return most;
  if (wanted < 1000) wanted = 1000;
  return (uint64_t)wanted < most ? (uint64_t)wanted : most;
}
