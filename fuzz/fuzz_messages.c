/* fuzz_messages.c - messages without a conn: what is read can be composed, and says the same when it is read again. */
#include <idem/rpc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const idem_message *one, const idem_message *other) {
  if (one->kind != other->kind || one->method_len != other->method_len) abort();
  if (one->method_len && memcmp(one->method, other->method, one->method_len) != 0) abort();
  if (one->code != other->code || one->text_len != other->text_len) abort();
  /* An error that had no id has null. */
  if (!one->id) return;
  if (one->id_len != other->id_len || memcmp(one->id, other->id, one->id_len) != 0) abort();
}

static void compose_again(const idem_message *message, const idem_policy *policy) {
  char *text;
  size_t len;
  idem_messages *again;
  idem_status status = idem_message_compose(message, policy, NULL, &text, &len);
  if (message->kind == IDEM_MESSAGE_INVALID && status != IDEM_E_INVAL) abort();
  if (status != IDEM_OK) return;
  if (memchr(text, '\n', len) || text[len]) abort();
  if (idem_messages_read(text, len, policy, NULL, &again) != IDEM_OK) abort();
  check_same(message, idem_messages_at(again, 0));
  idem_messages_free(again);
  idem_message_text_free(NULL, text);
}

/* Any bytes as an id: a composed message has it and nothing else. */
static void compose_with_id(const char *id, size_t len) {
  idem_message message = {
      .kind = IDEM_MESSAGE_REQUEST, .id = id, .id_len = len, .method = "m", .method_len = 1};
  compose_again(&message, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  idem_policy policy = idem_policy_preset((idem_profile)(data[0] % 3));
  if (data[0] & 4) policy.batches = true;
  if (data[0] & 8) policy.scalar_params = policy.duplicate_members = true;
  if (data[0] & 16) policy.byte_order_mark = true;
  char *copy = malloc(size);
  if (!copy) abort();
  memcpy(copy, data + 1, size - 1);
  idem_messages *messages;
  if (idem_messages_read(copy, size - 1, &policy, NULL, &messages) != IDEM_OK) abort();
  compose_with_id(copy, size - 1);
  free(copy);
  for (size_t i = 0; i < idem_messages_count(messages); i++)
    compose_again(idem_messages_at(messages, i), &policy);
  idem_messages_free(messages);
  return 0;
}
