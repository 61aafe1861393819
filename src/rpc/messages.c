/* messages.c - messages without a conn: read by its rules, composed in its form, with any id.
 * Reading keeps a copy of the text, since ids are tokens of it. See docs/internals/rpc.md. */
#include "inside.h"

#include <string.h>

struct idem_messages {
  idem_alloc alloc;
  char *text;
  size_t text_len;
  idem__arena arena;
  yyjson_doc *doc;
  bool batch;
  size_t count;
  idem_message list[];
};

/* ------------------------------------------------------------------- reading */

static void set_reason(idem_message *out, int64_t code, idem__reason reason) {
  out->kind = IDEM_MESSAGE_INVALID;
  out->code = code;
  if (reason == IDEM__REASON_NONE) return;
  out->text = idem__reason_text(reason);
  out->text_len = strlen(out->text);
}

static void set_response(idem_message *out, const idem__message *message) {
  idem_response response = idem__response_read(message);
  bool known = message->id.kind != IDEM__ID_INVALID;
  out->kind = IDEM_MESSAGE_INVALID;
  if (!known) out->id = NULL;
  if (!known) out->id_len = 0;
  if (known && response.status == IDEM_OK && message->id.raw) {
    out->kind = IDEM_MESSAGE_RESULT;
    out->value = response.result;
  } else if (known && response.status == IDEM_E_REMOTE) {
    out->kind = IDEM_MESSAGE_ERROR;
    out->code = response.code;
    out->text = response.message;
    out->text_len = response.message_len;
    out->value = response.data;
  }
}

static void set_message(idem_message *out, const idem__message *message) {
  out->id = message->id.raw;
  out->id_len = message->id.raw_len;
  out->method = message->method;
  out->method_len = message->method_len;
  out->value = message->params;
  switch (message->kind) {
  case IDEM__REQUEST: out->kind = IDEM_MESSAGE_REQUEST; break;
  case IDEM__NOTIFICATION: out->kind = IDEM_MESSAGE_NOTIFICATION; break;
  case IDEM__RESPONSE: set_response(out, message); return;
  case IDEM__INVALID: set_reason(out, IDEM_RPC_INVALID_REQUEST, message->reason); return;
  }
  if (message->params_refused) set_reason(out, IDEM_RPC_INVALID_PARAMS, IDEM__REASON_NONE);
}

static idem_status read_single(const idem_messages *self, const idem_policy *policy,
                               idem_message *out) {
  idem__message message = {0};
  idem_status status =
      idem__message_read(policy, self->doc, self->text, self->text_len, self->doc->root, &message);
  if (status == IDEM_OK) set_message(out, &message);
  return status;
}

/* The fault of the whole, if it has one: NONE with *code 0: it has none. */
static idem__reason fault_of(const idem_messages *self, const idem_policy *policy, int64_t *code) {
  *code = IDEM_RPC_INVALID_REQUEST;
  if (!self->doc && self->arena.over_limit) return IDEM__OVERSIZE;
  if (!self->doc || !idem__json_depth_within(self->doc, self->text_len, policy->limits.depth)) {
    *code = IDEM_RPC_PARSE_ERROR;
    return IDEM__REASON_NONE;
  }
  size_t count = yyjson_arr_size(self->doc->root);
  if (self->batch && !policy->batches) return IDEM__BATCH_NOT_SUPPORTED;
  if (self->batch && count == 0) return IDEM__EMPTY_BATCH;
  if (self->batch && count > policy->limits.batch) return IDEM__BATCH_TOO_LARGE;
  *code = 0;
  return IDEM__REASON_NONE;
}

/* Makes room for as many as there are; they are zero. */
static idem_status make_list(idem_messages **self, size_t count) {
  size_t most = (SIZE_MAX - sizeof **self) / sizeof *(*self)->list;
  if (count > most) return IDEM_E_NOMEM;
  size_t old_size = sizeof **self + (*self)->count * sizeof *(*self)->list;
  size_t size = sizeof **self + count * sizeof *(*self)->list;
  idem_alloc alloc = (*self)->alloc;
  idem_messages *grown = idem__realloc(&alloc, *self, old_size, size);
  if (!grown) return IDEM_E_NOMEM;
  grown->arena.alloc = &grown->alloc; /* it has moved */
  grown->count = count;
  memset(grown->list, 0, count * sizeof *grown->list);
  *self = grown;
  return IDEM_OK;
}

static void read_element(const idem_messages *self, const idem_policy *policy, yyjson_val *val,
                         idem_message *out) {
  idem__message message = {0};
  idem__message_classify(policy, self->doc, self->text, self->text_len, val, &message);
  set_message(out, &message);
}

/* The document is mended before the list grows: it knows where its memory was. */
static idem_status read_batch(idem_messages **out, const idem_policy *policy) {
  yyjson_val *root = (*out)->doc->root;
  idem_status status = idem__message_keep_last((*out)->doc);
  if (status == IDEM_OK) status = make_list(out, yyjson_arr_size(root));
  if (status != IDEM_OK) return status;
  yyjson_val *val = unsafe_yyjson_get_first(root);
  for (size_t i = 0; i < (*out)->count; i++) {
    read_element(*out, policy, val, &(*out)->list[i]);
    val = unsafe_yyjson_get_next(val);
  }
  return IDEM_OK;
}

static idem_status read_messages(idem_messages **out, const idem_policy *policy) {
  idem_messages *self = *out;
  int64_t code;
  idem__reason reason = fault_of(self, policy, &code);
  if (!code && self->batch) return read_batch(out, policy);
  if (!code) return read_single(self, policy, &self->list[0]);
  set_reason(&self->list[0], code, reason);
  return IDEM_OK;
}

static idem_status read_all(idem_messages **out, const idem_policy *policy) {
  idem_messages *self = *out;
  idem_status status = IDEM_OK;
  self->doc = idem__json_read(self->text, self->text_len, &self->arena, &status);
  if (!self->doc && status == IDEM_E_NOMEM && !self->arena.over_limit) return status;
  self->batch = self->doc && unsafe_yyjson_is_arr(self->doc->root);
  status = read_messages(out, policy);
  if (status == IDEM_OK || !(*out)->arena.over_limit) return status;
  set_reason(&(*out)->list[0], IDEM_RPC_INVALID_REQUEST, IDEM__OVERSIZE);
  return IDEM_OK;
}

static idem_messages *new_messages(const idem_alloc *alloc, const idem_policy *policy) {
  idem_alloc own = idem__alloc_or_default(alloc);
  idem_messages *self = idem__calloc(&own, sizeof *self + sizeof *self->list);
  if (!self) return NULL;
  self->alloc = own;
  self->count = 1;
  idem__arena_init(&self->arena, &self->alloc, NULL, 0, policy->limits.parse_bytes);
  return self;
}

static void skip_mark(const idem_policy *policy, const char **text, size_t *len) {
  if (!policy->byte_order_mark || *len < 3 || memcmp(*text, "\xef\xbb\xbf", 3) != 0) return;
  *text += 3;
  *len -= 3;
}

idem_status idem_messages_read(const char *text, size_t len, const idem_policy *policy,
                               const idem_alloc *alloc, idem_messages **out) {
  idem_policy preset = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  if (!policy) policy = &preset;
  *out = NULL;
  if (!idem__json_self_test()) return IDEM_E_STATE;
  idem_messages *self = new_messages(alloc, policy);
  if (!self) return IDEM_E_NOMEM;
  skip_mark(policy, &text, &len);
  idem_status status = IDEM_OK;
  if (len > policy->limits.message_bytes) {
    set_reason(&self->list[0], IDEM_RPC_INVALID_REQUEST, IDEM__OVERSIZE);
  } else {
    self->text = idem__strndup(&self->alloc, text, len);
    self->text_len = len;
    status = self->text ? read_all(&self, policy) : IDEM_E_NOMEM;
  }
  if (status == IDEM_OK)
    *out = self;
  else
    idem_messages_free(self);
  return status;
}

void idem_messages_free(idem_messages *messages) {
  if (!messages) return;
  idem_alloc alloc = messages->alloc;
  idem__arena_deinit(&messages->arena);
  idem__free(&alloc, messages->text);
  idem__free(&alloc, messages);
}

size_t idem_messages_count(const idem_messages *messages) { return messages->count; }
bool idem_messages_is_batch(const idem_messages *messages) { return messages->batch; }

const idem_message *idem_messages_at(const idem_messages *messages, size_t index) {
  return index < messages->count ? &messages->list[index] : NULL;
}
