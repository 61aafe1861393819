/* round.c - what a server wants to know before it goes on with a call: questions with names, answered all together,
 * and a state that is given back as it came. Nothing of a round is left for the next one, or for another call.
 * See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

typedef struct entry {
  char *key;
  size_t key_len;
  char *answer; /* JSON; NULL: not yet */
  size_t answer_len;
} entry;

struct idem__mcp_round {
  char *state; /* NULL: none was given */
  size_t state_len;
  size_t count, left;
  bool asking; /* handlers are being called: answers wait until all have been */
  bool refused;
  const char *refusal;
  void (*then)(idem__mcp_call *call);
  entry entries[];
};

void idem__mcp_round_free(idem__mcp_call *call) {
  const idem_alloc *alloc = &call->client->alloc;
  idem__mcp_round *round = call->round;
  idem__mcp_questions_leave(call);
  call->round = NULL;
  for (size_t i = 0; i < round->count; i++) {
    idem__free(alloc, round->entries[i].key);
    idem__free(alloc, round->entries[i].answer);
  }
  idem__free(alloc, round->state);
  idem__free(alloc, round);
}

bool idem__mcp_round_state(const idem__mcp_round *round, const char **text, size_t *len) {
  *text = round->state;
  *len = round->state_len;
  return round->state != NULL;
}

bool idem__mcp_round_asks(const idem__mcp_round *round) { return round->count > 0; }

bool idem__mcp_round_accepted(const idem__mcp_round *round) {
  static const char accept[] = "{\"action\":\"accept\"}";
  for (size_t i = 0; i < round->count; i++) {
    const entry *each = &round->entries[i];
    if (each->answer_len != sizeof accept - 1 ||
        memcmp(each->answer, accept, sizeof accept - 1) != 0)
      return false;
  }
  return true;
}

idem_status idem__mcp_round_put(const idem__mcp_round *round, idem_buf *out) {
  idem_status status = idem_buf_puts(out, "{");
  for (size_t i = 0; status == IDEM_OK && i < round->count; i++) {
    const entry *each = &round->entries[i];
    if (i) status = idem_buf_puts(out, ",");
    if (status == IDEM_OK) status = idem_text_json_string(out, each->key, each->key_len);
    if (status == IDEM_OK) status = idem_buf_puts(out, ":");
    if (status == IDEM_OK) status = idem_buf_put(out, each->answer, each->answer_len);
  }
  return status == IDEM_OK ? idem_buf_puts(out, "}") : status;
}

static idem__mcp_round *new_round(const idem_mcp_client *client, yyjson_val *requests,
                                  yyjson_val *state) {
  size_t count = yyjson_obj_size(requests);
  idem__mcp_round *round =
      idem__calloc(&client->alloc, sizeof *round + count * sizeof *round->entries);
  if (!round || !state) return round;
  round->state = idem__strndup(&client->alloc, yyjson_get_str(state), yyjson_get_len(state));
  round->state_len = yyjson_get_len(state);
  if (round->state) return round;
  idem__free(&client->alloc, round);
  return NULL;
}

/* ----------------------------------------------------------------------- asking */

static idem_status ask_one(idem__mcp_call *call, yyjson_val *key, yyjson_val *request) {
  idem_mcp_client *client = call->client;
  idem__mcp_round *round = call->round;
  yyjson_val *method = yyjson_obj_get(request, "method");
  yyjson_val *params = yyjson_obj_get(request, "params");
  entry *each = &round->entries[round->count];
  each->key = idem__strndup(&client->alloc, yyjson_get_str(key), yyjson_get_len(key));
  if (!each->key) return IDEM_E_NOMEM;
  each->key_len = yyjson_get_len(key);
  size_t index = round->count++;
  round->left++;
  if (client->opts.roots && yyjson_equals_str(method, "roots/list")) {
    idem_buf text;
    idem_buf_init(&text, &client->alloc, client->roots.len + 16);
    idem_status status = idem_buf_puts(&text, "{\"roots\":");
    if (status == IDEM_OK) status = idem_buf_put(&text, client->roots.data, client->roots.len);
    if (status == IDEM_OK) status = idem_buf_puts(&text, "}");
    if (status == IDEM_OK) idem__mcp_round_answer(call, index, text.data, text.len);
    idem_buf_deinit(&text);
    return status;
  }
  return idem__mcp_question_ask(call, index, method, params);
}

static idem_status ask_all(idem__mcp_call *call, yyjson_val *requests) {
  yyjson_val *key, *val;
  size_t index, max;
  idem_status status = IDEM_OK;
  idem_each_member(requests, index, max, key, val) {
    status = ask_one(call, key, val);
    if (status != IDEM_OK) break;
  }
  return status;
}

/* All is answered, or cannot be. */
static void look(idem__mcp_call *call) {
  idem__mcp_round *round = call->round;
  if (round->asking) return;
  if (round->refused)
    idem__mcp_call_fail(call, IDEM_E_CANCELLED, round->refusal);
  else if (round->left == 0)
    round->then(call);
}

void idem__mcp_round_answer(idem__mcp_call *call, size_t index, const char *json, size_t len) {
  idem__mcp_round *round = call->round;
  entry *each = &round->entries[index];
  each->answer = idem__strndup(&call->client->alloc, json, len);
  each->answer_len = len;
  if (each->answer) round->left--;
  if (!each->answer) round->refused = true;
  if (!each->answer) round->refusal = "no memory for an answer";
  look(call);
}

void idem__mcp_round_refuse(idem__mcp_call *call, const char *text) {
  call->round->refused = true;
  call->round->refusal = text;
  look(call);
}

static const char *words_of(idem_status status) {
  switch (status) {
  case IDEM_E_STATE: return "the server asks for something that was not offered to it";
  case IDEM_E_LIMIT: return "the server asks too many questions at once";
  default: return idem_status_text(status);
  }
}

bool idem__mcp_round_begin(idem__mcp_call *call, yyjson_val *requests, yyjson_val *state,
                           void (*then)(idem__mcp_call *call)) {
  idem_mcp_client *client = call->client;
  size_t count = yyjson_obj_size(requests);
  if (call->round) idem__mcp_round_free(call);
  idem_status status =
      client->question_count + count > client->opts.max_questions ? IDEM_E_LIMIT : IDEM_OK;
  if (status == IDEM_OK) call->round = new_round(client, requests, state);
  if (status == IDEM_OK && !call->round) status = IDEM_E_NOMEM;
  if (status == IDEM_OK) {
    call->stage = IDEM__MCP_WAITING;
    call->round->then = then;
    call->round->asking = true;
    uint64_t handle = call->handle;
    status = ask_all(call, requests);
    if (idem__mcp_call_find(client, handle) != call) return false; /* a handler ended it */
    call->round->asking = false;
    idem__mcp_call_arm(call);
  }
  if (status != IDEM_OK) {
    idem__mcp_call_fail(call, status == IDEM_E_STATE ? IDEM_E_PROTO : status, words_of(status));
    return false;
  }
  if (count) look(call);
  return true;
}
