/* state.c - requestState: what a handler keeps between the rounds of one request, carried by the
 * client and sealed so that it comes back as it was, soon enough, from the same principal and for
 * the same question. Layout: version, expiry, nonce, the handler's bytes, tag; base64url. */
#include "context.h"
#include "input.h"
#include "server.h"

#include <string.h>

#define SEAL_VERSION 2
#define NONCE_BYTES 12
#define HEAD_BYTES (1 + 8 + NONCE_BYTES)

static void key_from(const void *bytes, size_t len, uint8_t key[IDEM_SHA256_BYTES]) {
  idem_sha256 sha;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, bytes, len);
  idem_sha256_end(&sha, key);
}

idem_status idem__state_keys(idem_server *server) {
  const idem_server_opts *opts = &server->opts;
  if (opts->state_key && opts->state_key_len < 32) return IDEM_E_INVAL;
  if (opts->state_key)
    key_from(opts->state_key, opts->state_key_len, server->identity.state_key);
  else
    idem__server_random(server, server->identity.state_key, sizeof server->identity.state_key);
  server->has_old_key = opts->state_key_old != NULL;
  if (server->has_old_key) {
    key_from(opts->state_key_old, opts->state_key_old_len, server->state_key_old);
  }
  return IDEM_OK;
}

void idem__server_derive_key(const idem_server *server, const char *purpose,
                             uint8_t key[IDEM__STATE_KEY_BYTES]) {
  uint8_t from[IDEM__STATE_KEY_BYTES];
  idem__hmac hmac;
  idem__server_state_key(server, from);
  idem__hmac_init(&hmac, from);
  idem__hmac_add(&hmac, purpose, strlen(purpose));
  idem__hmac_end(&hmac, key);
}

static void add_text(idem__hmac *hmac, const char *text, size_t len) {
  uint64_t size = len; /* lengths keep neighbouring texts apart */
  idem__hmac_add(hmac, &size, sizeof size);
  idem__hmac_add(hmac, text, len);
}

/* What the question was: everything in params but what changes from round to round. */
static idem_status add_question(idem__hmac *hmac, const idem__context *context) {
  static const char *const changing[] = {"_meta", "inputResponses", "requestState"};
  idem_buf text;
  idem_status status = IDEM_OK;
  yyjson_obj_iter iter = yyjson_obj_iter_with(context->params);
  idem_buf_init(&text, &context->worker->alloc, idem__answer_bytes(context->server));
  for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter)) && status == IDEM_OK;) {
    bool skip = false;
    for (size_t i = 0; i < 3; i++) skip |= yyjson_equals_str(key, changing[i]);
    if (skip) continue;
    text.len = 0;
    status = idem__json_put(&text, key);
    if (status == IDEM_OK) status = idem__json_put(&text, yyjson_obj_iter_get_val(key));
    if (status == IDEM_OK) add_text(hmac, text.data, text.len);
  }
  idem_buf_deinit(&text);
  return status;
}

static idem_status make_tag(const idem__context *context, const uint8_t *key, const uint8_t *bytes,
                            size_t len, uint8_t tag[IDEM_SHA256_BYTES]) {
  idem__hmac hmac;
  idem__hmac_init(&hmac, key);
  add_text(&hmac, (const char *)bytes, len);
  add_text(&hmac, context->principal, strlen(context->principal));
  add_text(&hmac, context->method->name, strlen(context->method->name));
  idem_status status = add_question(&hmac, context);
  idem__hmac_end(&hmac, tag);
  return status;
}

static void put_expiry(uint8_t *at, uint64_t wall_ms) {
  for (size_t i = 0; i < 8; i++) at[i] = (uint8_t)(wall_ms >> (56 - i * 8));
}

static uint64_t get_expiry(const uint8_t *at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; i++) value = value << 8 | at[i];
  return value;
}

idem_status idem__state_seal(idem__context *context, const void *state, size_t len, idem_buf *out) {
  const idem_server *server = context->server;
  uint8_t head[HEAD_BYTES], tag[IDEM_SHA256_BYTES], key[IDEM__STATE_KEY_BYTES];
  idem_buf plain;
  if (len > IDEM__SEALED_MAX) return IDEM_E_LIMIT;
  idem__server_state_key(server, key);
  head[0] = SEAL_VERSION;
  put_expiry(head + 1, idem__server_wall_ms(server) + server->opts.state_ms);
  idem__server_random(server, head + 9, NONCE_BYTES);
  idem_buf_init(&plain, &context->worker->alloc, IDEM__SEALED_MAX + 256);
  idem_status status = idem_buf_put(&plain, head, sizeof head);
  if (status == IDEM_OK) status = idem_buf_put(&plain, state, len);
  if (status == IDEM_OK) {
    status = make_tag(context, key, (uint8_t *)plain.data, plain.len, tag);
  }
  if (status == IDEM_OK) status = idem_buf_put(&plain, tag, sizeof tag);
  if (status == IDEM_OK) {
    status = idem_base64_encode(out, plain.data, plain.len, IDEM_BASE64_URL);
  }
  idem_buf_deinit(&plain);
  return status;
}

static bool tag_fits(const idem__context *context, const uint8_t *key, const idem_buf *plain) {
  uint8_t tag[IDEM_SHA256_BYTES];
  size_t len = plain->len - sizeof tag;
  if (make_tag(context, key, (const uint8_t *)plain->data, len, tag) != IDEM_OK) return false;
  return idem__equal_secret(tag, plain->data + len, sizeof tag);
}

static bool seal_holds(const idem__context *context, const idem_buf *plain) {
  const idem_server *server = context->server;
  uint8_t key[IDEM__STATE_KEY_BYTES];
  if (plain->len < HEAD_BYTES + IDEM_SHA256_BYTES || plain->data[0] != SEAL_VERSION) return false;
  idem__server_state_key(server, key);
  if (!tag_fits(context, key, plain) &&
      !(server->has_old_key && tag_fits(context, server->state_key_old, plain))) {
    return false;
  }
  return get_expiry((const uint8_t *)plain->data + 1) > idem__server_wall_ms(server);
}

idem_status idem__state_open(idem__context *context, const char *text, size_t len, idem_buf *out) {
  idem_buf plain;
  if (len > IDEM__SEALED_MAX * 2) return IDEM_E_INVAL;
  idem_buf_init(&plain, &context->worker->alloc, IDEM__SEALED_MAX * 2);
  idem_status status = idem_base64_decode(&plain, text, len, IDEM_BASE64_URL);
  if (status == IDEM_OK && !seal_holds(context, &plain)) status = IDEM_E_INVAL;
  if (status == IDEM_OK) {
    status = idem_buf_put(out, plain.data + HEAD_BYTES, plain.len - HEAD_BYTES - IDEM_SHA256_BYTES);
  }
  idem_buf_deinit(&plain);
  return status;
}
