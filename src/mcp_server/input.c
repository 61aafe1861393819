/* input.c - a handler that needs the user or the model before it can go on.
 * 2026-07-28: the answer says what is needed and the client asks again with it. Older revisions:
 * real requests to the client, their answers collected, the handler run again. Either way the
 * handler sees the same: it is called again, and its questions have answers. */
#include "input.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS_MAX 8u

/* ------------------------------------------------------------ what can be asked */

static bool has(yyjson_val *object, const char *key) {
  return object && yyjson_is_obj(yyjson_obj_get(object, key));
}

/* An empty elicitation capability means forms. */
static bool can_elicit(const idem__context *context, const char *mode) {
  yyjson_val *elicitation =
      context->capabilities ? yyjson_obj_get(context->capabilities, "elicitation") : NULL;
  if (!yyjson_is_obj(elicitation)) return false;
  if (has(elicitation, mode)) return true;
  return strcmp(mode, "form") == 0 && !has(elicitation, "url");
}

static bool can_ask(const idem__context *context, idem_ask_kind kind) {
  switch (kind) {
  case IDEM_ASK_FORM:
    return idem__revision_has(context->revision, IDEM__F_ELICIT) && can_elicit(context, "form");
  case IDEM_ASK_URL:
    return idem__revision_has(context->revision, IDEM__F_ELICIT_URL) && can_elicit(context, "url");
  case IDEM_ASK_SAMPLING: return has(context->capabilities, "sampling");
  case IDEM_ASK_ROOTS: return has(context->capabilities, "roots");
  }
  return false;
}

bool idem_can_ask(const idem_request *request, idem_ask_kind kind) {
  return can_ask(idem__context_of(request), kind);
}

static const char *required_for(idem_ask_kind kind) {
  switch (kind) {
  case IDEM_ASK_FORM: return "{\"elicitation\":{\"form\":{}}}";
  case IDEM_ASK_URL: return "{\"elicitation\":{\"url\":{}}}";
  case IDEM_ASK_SAMPLING: return "{\"sampling\":{}}";
  case IDEM_ASK_ROOTS: break;
  }
  return "{\"roots\":{}}";
}

/* The peer cannot be asked: a modern one is told what to declare, an older one's tool fails. */
static idem_status refuse_ask(idem__context *context, const char *required) {
  if (context->tool && !context->task && !idem__revision_has(context->revision, IDEM__R_MODERN)) {
    return idem_tool_failed(context->request,
                            "This needs a client that can be asked for more; this one cannot.");
  }
  return idem__refuse_capability(context, required);
}

idem_status idem_requires(idem_request *request, const char *capabilities) {
  return refuse_ask(idem__context_of(request), capabilities);
}

/* ------------------------------------------------------------------- answers */

yyjson_val *idem_answer_to(const idem_request *request, const char *key) {
  const idem__context *context = idem__context_of(request);
  yyjson_val *answer = context->answers ? yyjson_obj_get(context->answers, key) : NULL;
  return yyjson_is_obj(answer) ? answer : NULL;
}

const void *idem_state(const idem_request *request, size_t *len) {
  const idem__context *context = idem__context_of(request);
  if (len) *len = context->state_len;
  return context->state;
}

idem_status idem__input_keep_state(idem__context *context, const void *state, size_t len) {
  context->state = NULL;
  context->state_len = 0;
  if (!state) return IDEM_OK;
  char *copy = idem__arena_malloc(idem__request_memory(context->request), len + 1);
  if (!copy) return IDEM_E_NOMEM;
  memcpy(copy, state, len);
  context->state = copy;
  context->state_len = len;
  return IDEM_OK;
}

static bool read_state(idem__context *context, yyjson_val *sealed) {
  idem__buf plain;
  idem__buf_init(&plain, &context->worker->alloc, (size_t)1 << 20);
  idem_status status = yyjson_is_str(sealed) ? idem__state_open(context, yyjson_get_str(sealed),
                                                                yyjson_get_len(sealed), &plain)
                                             : IDEM_E_INVAL;
  if (status == IDEM_OK)
    status = idem__input_keep_state(context, plain.len ? plain.data : "", plain.len);
  idem__buf_deinit(&plain);
  if (status == IDEM_OK) return true;
  if (status == IDEM_E_INVAL) {
    idem__reply_bad_param(context, "requestState", "the state this server gave for this request",
                          sealed);
  } else {
    idem_request_drop(context->request);
  }
  return false;
}

bool idem__input_read(idem__context *context, yyjson_val *params) {
  if (!idem__revision_has(context->revision, IDEM__R_MODERN)) return true;
  yyjson_val *answers = yyjson_obj_get(params, "inputResponses");
  yyjson_val *sealed = yyjson_obj_get(params, "requestState");
  if (answers && !yyjson_is_obj(answers)) {
    idem__reply_bad_param(context, "inputResponses", "object", answers);
    return false;
  }
  context->answers = answers;
  return !sealed || read_state(context, sealed);
}

/* -------------------------------------------------------------- writing an ask */

static const char *ask_method(idem_ask_kind kind) {
  switch (kind) {
  case IDEM_ASK_SAMPLING: return "sampling/createMessage";
  case IDEM_ASK_ROOTS: return "roots/list";
  case IDEM_ASK_FORM:
  case IDEM_ASK_URL: break;
  }
  return "elicitation/create";
}

static void write_form(const idem_ask *ask, const idem__revision *revision, idem__writer *writer) {
  idem__write_object(writer);
  if (idem__revision_has(revision, IDEM__F_ELICIT_URL)) {
    idem__write_member_text(writer, "mode", "form");
  }
  idem__write_member_text(writer, "message", ask->message ? ask->message : "");
  idem__write_member_raw(writer, "requestedSchema",
                         ask->schema ? ask->schema : "{\"type\":\"object\",\"properties\":{}}");
  idem__write_object_end(writer);
}

static void write_url(const idem_ask *ask, const char *elicitation_id, idem__writer *writer) {
  idem__write_object(writer);
  idem__write_member_text(writer, "mode", "url");
  idem__write_member_text(writer, "message", ask->message ? ask->message : "");
  idem__write_member_text(writer, "url", ask->url ? ask->url : "");
  idem__write_member_text(writer, "elicitationId", elicitation_id);
  idem__write_object_end(writer);
}

static void write_params(const idem_ask *ask, const idem__revision *revision,
                         const char *elicitation_id, idem__writer *writer) {
  switch (ask->kind) {
  case IDEM_ASK_FORM: write_form(ask, revision, writer); break;
  case IDEM_ASK_URL: write_url(ask, elicitation_id, writer); break;
  case IDEM_ASK_SAMPLING:
    idem__write_raw(writer, ask->params ? ask->params : "{}",
                    ask->params ? strlen(ask->params) : 2);
    break;
  case IDEM_ASK_ROOTS: idem__write_raw(writer, "{}", 2); break;
  }
}

void idem__input_write_ask(const idem_ask *ask, const idem__revision *revision,
                           idem__writer *writer) {
  idem__write_object(writer);
  idem__write_member_text(writer, "method", ask_method(ask->kind));
  idem__write_key(writer, "params");
  write_params(ask, revision, NULL, writer);
  idem__write_object_end(writer);
}

/* --------------------------------------------------------------------- modern */

static idem_status write_sealed(idem__context *context, const void *state, size_t len,
                                idem__writer *writer) {
  idem__buf sealed;
  idem__buf_init(&sealed, &context->worker->alloc, (size_t)1 << 20);
  idem_status status = idem__state_seal(context, state, len, &sealed);
  if (status == IDEM_OK) {
    idem__write_key(writer, "requestState");
    idem__write_string(writer, sealed.data, sealed.len);
  }
  idem__buf_deinit(&sealed);
  return status;
}

static idem_status ask_modern(idem__context *context, const idem_ask *asks, size_t count,
                              const void *state, size_t state_len) {
  idem__result result;
  idem__result_begin(&result, context, "input_required");
  if (count) {
    idem__write_key(&result.writer, "inputRequests");
    idem__write_object(&result.writer);
    for (size_t i = 0; i < count; i++) {
      idem__write_key(&result.writer, asks[i].key);
      idem__input_write_ask(&asks[i], context->revision, &result.writer);
    }
    idem__write_object_end(&result.writer);
  }
  if (state || !count) {
    idem_status status = write_sealed(context, state ? state : "", state_len, &result.writer);
    if (status != IDEM_OK && result.writer.status == IDEM_OK) result.writer.status = status;
  }
  return idem__result_end(&result, NULL);
}

/* --------------------------------------------------------------------- legacy */

/* The questions of one round, on their way to a legacy client. Lives in the request's memory. */
typedef struct question {
  struct idem__round *round;
  char *key;
  idem_ask_kind kind;
  uint64_t call;
  bool pending;
  yyjson_mut_val *answer;
} question;

typedef struct idem__round {
  idem__context *context;
  idem_conn *conn; /* there as long as a question is pending */
  size_t count;
  size_t waiting;
  bool starting; /* questions are still being sent */
  bool over;
  question questions[];
} idem__round;

/* What the client said, as the parsed object that a modern request would have carried. */
static yyjson_val *collect(idem__context *context, idem__round *round) {
  idem__buf text;
  idem_status status;
  yyjson_doc *doc = NULL;
  idem__buf_init(&text, &context->worker->alloc, SIZE_MAX / 4);
  idem__writer writer = idem__writer_on(&text);
  idem__write_object(&writer);
  for (size_t i = 0; i < round->count; i++) {
    if (!round->questions[i].answer) continue;
    idem__write_key(&writer, round->questions[i].key);
    idem__write_mutable(&writer, round->questions[i].answer);
  }
  idem__write_object_end(&writer);
  if (writer.status == IDEM_OK) {
    doc = idem__json_read(text.data, text.len, idem__request_memory(context->request), &status);
  }
  idem__buf_deinit(&text);
  return doc ? doc->root : NULL;
}

static void finish_round(idem__round *round) {
  idem__context *context = round->context;
  if (round->over || round->starting || round->waiting) return;
  round->over = true;
  context->round = NULL;
  context->answers = collect(context, round);
  if (!context->answers) {
    idem_request_drop(context->request);
    return;
  }
  idem__context_rerun(context);
}

/* An elicitation that the client refused or could not do counts as cancelled; other questions stay
 * without an answer, and the handler decides. */
static yyjson_mut_val *cancelled_answer(yyjson_mut_doc *doc, idem_ask_kind kind) {
  if (kind != IDEM_ASK_FORM && kind != IDEM_ASK_URL) return NULL;
  yyjson_mut_val *answer = yyjson_mut_obj(doc);
  return yyjson_mut_obj_add_str(doc, answer, "action", "cancel") ? answer : NULL;
}

/* The end of the conn ends the request as well: its handler is told so, not run again. */
static void on_answer(idem_conn *conn, const idem_response *response, void *user) {
  question *asked = user;
  idem__round *round = asked->round;
  asked->pending = false;
  if (round->over || idem__conn_going(conn)) return;
  yyjson_mut_doc *doc = idem_request_doc(round->context->request);
  bool good = response->status == IDEM_OK && yyjson_is_obj(response->result);
  asked->answer =
      good ? yyjson_val_mut_copy(doc, response->result) : cancelled_answer(doc, asked->kind);
  round->waiting--;
  finish_round(round);
}

static void make_elicitation_id(const idem__context *context, char out[33]) {
  uint8_t bytes[16];
  idem__server_random(context->server, bytes, sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + i * 2, 3, "%02x", bytes[i]);
}

static idem_status send_question(idem__context *context, const idem_ask *ask, question *asked) {
  idem__buf params;
  char id[33];
  bool with_id = idem__revision_has(context->revision, IDEM__F_ELICIT_ID);
  if (with_id) make_elicitation_id(context, id);
  idem__buf_init(&params, &context->worker->alloc, (size_t)16 << 20);
  idem__writer writer = idem__writer_on(&params);
  write_params(ask, context->revision, with_id ? id : NULL, &writer);
  idem_status status = writer.status;
  if (status == IDEM_OK) {
    asked->pending = true; /* it may be answered before the call returns */
    asked->round->waiting++;
    status = idem_call_json(asked->round->conn, ask_method(ask->kind), params.data, params.len,
                            &(idem_call_opts){.timeout_ms = context->server->opts.input_ms},
                            on_answer, asked, &asked->call);
    if (status != IDEM_OK) asked->pending = false;
  }
  idem__buf_deinit(&params);
  return status;
}

void idem__input_cancel(idem__context *context) {
  idem__round *round = context->round;
  if (!round || round->over) return;
  round->over = true;
  context->round = NULL;
  for (size_t i = 0; i < round->count; i++) {
    if (round->questions[i].pending) idem_cancel(round->conn, round->questions[i].call);
  }
}

static void on_asker_cancelled(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  idem__input_cancel(user);
  idem_request_drop(request);
}

static idem__round *new_round(idem__context *context, size_t count) {
  size_t size = sizeof(idem__round) + count * sizeof(question);
  idem__round *round = idem__arena_malloc(idem__request_memory(context->request), size);
  if (!round) return NULL;
  memset(round, 0, size);
  round->context = context;
  round->conn = idem_request_conn(context->request);
  round->count = count;
  round->starting = true;
  return round;
}

static char *copy_key(idem__context *context, const char *key) {
  size_t len = strlen(key);
  char *copy = idem__arena_malloc(idem__request_memory(context->request), len + 1);
  if (copy) memcpy(copy, key, len + 1);
  return copy;
}

static idem_status start_round(idem__context *context, const idem_ask *asks, size_t count) {
  idem__round *round = new_round(context, count);
  if (!round) return IDEM_E_NOMEM;
  context->round = round;
  for (size_t i = 0; i < count; i++) {
    question *asked = &round->questions[i];
    asked->round = round;
    asked->kind = asks[i].kind;
    asked->key = copy_key(context, asks[i].key);
    if (!asked->key) return IDEM_E_NOMEM;
    idem_status status = send_question(context, &asks[i], asked);
    if (status != IDEM_OK) return status;
  }
  round->starting = false;
  return IDEM_OK;
}

/* Over HTTP a client that takes no event stream, or has lost the way back to it, cannot be asked. */
static bool can_reach(const idem__context *context) {
  const idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  return peer && (!peer->edge || peer->edge->can_reach(peer->edge_ctx));
}

static idem_status ask_legacy(idem__context *context, const idem_ask *asks, size_t count,
                              const void *state, size_t state_len) {
  if (++context->rounds > ROUNDS_MAX) {
    return idem_tool_failed(context->request, "This asked too many questions and was stopped.");
  }
  idem_status status = idem__input_keep_state(context, state, state_len);
  idem_request_keep(context->request);
  if (status == IDEM_OK) status = start_round(context, asks, count);
  if (status == IDEM_OK) {
    idem_request_on_cancel(context->request, on_asker_cancelled, context);
    finish_round(context->round); /* where nothing was asked, or all is answered */
    return IDEM_OK;
  }
  idem__input_cancel(context);
  idem_request_drop(context->request);
  return status;
}

/* ---------------------------------------------------------------------- asking */

idem_status idem_needs_input(idem_request *request, const idem_ask *asks, size_t count,
                             const void *state, size_t state_len) {
  idem__context *context = idem__context_of(request);
  if (!idem__request_in_use(request)) return IDEM_E_STATE;
  if (idem_request_cancelled(request) || (idem__request_settled(request) && !context->task)) {
    idem_request_drop(request); /* nobody would run it again */
    return IDEM_E_CLOSED;
  }
  for (size_t i = 0; i < count; i++) {
    if (!can_ask(context, asks[i].kind)) return refuse_ask(context, required_for(asks[i].kind));
  }
  if (context->task) return idem__task_ask(context, asks, count, state, state_len);
  if (idem__revision_has(context->revision, IDEM__R_MODERN)) {
    return ask_modern(context, asks, count, state, state_len);
  }
  if (count && !can_reach(context)) return refuse_ask(context, required_for(asks[0].kind));
  return ask_legacy(context, asks, count, state, state_len);
}
