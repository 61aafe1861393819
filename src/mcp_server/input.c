/* input.c - a handler that needs the user or the model before it can go on.
 * 2026-07-28: the answer says what is needed and the client asks again with it. Older revisions:
 * real requests to the client, their answers collected, the handler run again. Either way the
 * handler sees the same: it is called again, and its questions have answers. */
#include "input.h"
#include "ask.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------ what can be asked */

bool idem_can_ask(const idem_request *request, idem_ask_kind kind) {
  const idem__context *context = idem__context_of(request);
  return context && idem__ask_possible(context, kind);
}

/* The answer is a tool's failure, which has no line of its own. */
static void tell_refused(idem__context *context, const char *why, const char *what) {
  char detail[512];
  snprintf(detail, sizeof detail, "%.128s: %s%.256s, %zu bytes", context->tool->name, why, what,
           idem_request_bytes(context->request));
  idem_request_log(context->request, NULL, IDEM_LOG_WARN, "a request was refused", detail);
}

/* The peer cannot be asked: a modern one is told what to declare, an older one's tool fails. */
static idem_status refuse_ask(idem__context *context, const char *required) {
  idem__context_lacks(context);
  if (context->tool && !idem__revision_has(context->revision, IDEM__R_MODERN)) {
    tell_refused(context, "the client has not declared ", required);
    return idem_tool_failed(context->request,
                            "This needs a client that can be asked for more; this one cannot.");
  }
  return idem__refuse_capability(context, required);
}

idem_status idem_requires(idem_request *request, const char *capabilities) {
  idem__context *context = idem__context_open(request);
  return context ? refuse_ask(context, capabilities) : idem__reply_misplaced(request);
}

/* ------------------------------------------------------------------- answers */

yyjson_val *idem_answer_to(const idem_request *request, const char *key) {
  const idem__context *context = idem__context_of(request);
  return context && context->answers ? yyjson_obj_get(context->answers, key) : NULL;
}

/* 2025-11-25 and before have a code for a user who will not have a model asked. */
#define USER_REJECTED (-1)

static idem_answer_kind kind_of_error(yyjson_val *error, idem_answer_error *out) {
  int64_t code = 0;
  idem__json_get_int(yyjson_obj_get(error, "code"), &code);
  if (out) {
    out->code = code;
    out->message = yyjson_get_str(yyjson_obj_get(error, "message"));
  }
  return code == USER_REJECTED ? IDEM_ANSWER_REFUSED : IDEM_ANSWER_FAILED;
}

idem_answer_kind idem_answer_of(const idem_request *request, const char *key,
                                idem_answer_error *error) {
  yyjson_val *answer = idem_answer_to(request, key);
  yyjson_val *failure = yyjson_obj_get(answer, "error");
  yyjson_val *action = yyjson_obj_get(answer, "action");
  if (error) *error = (idem_answer_error){.message = ""};
  if (!answer) return IDEM_ANSWER_NONE;
  if (failure) return kind_of_error(failure, error);
  if (action && !yyjson_equals_str(action, "accept")) return IDEM_ANSWER_REFUSED;
  return IDEM_ANSWER_GIVEN;
}

const void *idem_state(const idem_request *request, size_t *len) {
  const idem__context *context = idem__context_of(request);
  if (len) *len = context ? context->state_len : 0;
  return context ? context->state : NULL;
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

/* Text of our own as values in the request's memory; NULL: there is none. */
yyjson_val *idem__input_parse(idem__context *context, const idem_buf *text, idem_status status) {
  yyjson_doc *doc = NULL;
  if (status == IDEM_OK) {
    doc = idem__json_read(text->data, text->len, idem__request_memory(context->request), &status);
  }
  return doc ? doc->root : NULL;
}

/* What is sealed: whether there is a state, the contracts of what was asked, the state. */
typedef struct sealed_head {
  uint8_t has_state;
  uint8_t contracts[4]; /* their length */
} sealed_head;

static bool take_sealed(idem__context *context, const idem_buf *plain, yyjson_val **contracts) {
  sealed_head head;
  idem_status status;
  if (plain->len < sizeof head) return false;
  memcpy(&head, plain->data, sizeof head);
  size_t len = (size_t)head.contracts[0] << 24 | (size_t)head.contracts[1] << 16 |
               (size_t)head.contracts[2] << 8 | head.contracts[3];
  const char *at = plain->data + sizeof head;
  if (len > plain->len - sizeof head) return false;
  yyjson_doc *doc =
      len ? idem__json_read(at, len, idem__request_memory(context->request), &status) : NULL;
  *contracts = doc ? doc->root : NULL;
  const char *state = head.has_state ? at + len : NULL;
  return idem__input_keep_state(context, state, plain->len - sizeof head - len) == IDEM_OK;
}

static bool read_state(idem__context *context, yyjson_val *sealed, yyjson_val **contracts) {
  idem_buf plain;
  idem_buf_init(&plain, &context->worker->alloc, (size_t)1 << 20);
  idem_status status = yyjson_is_str(sealed) ? idem__state_open(context, yyjson_get_str(sealed),
                                                                yyjson_get_len(sealed), &plain)
                                             : IDEM_E_INVAL;
  if (status == IDEM_OK && !take_sealed(context, &plain, contracts)) status = IDEM_E_NOMEM;
  idem_buf_deinit(&plain);
  if (status == IDEM_OK) return true;
  if (status == IDEM_E_INVAL) {
    idem__reply_bad_param(context, "requestState", "the state this server gave for this request",
                          sealed);
  } else {
    idem_request_drop(context->request);
  }
  return false;
}

/* Does the answer to this key fit its contract? The log hears why not. */
static bool fits(idem__context *context, yyjson_val *contract, yyjson_val *answer) {
  char why[256];
  if (idem__answer_fits(context->worker, context->revision, contract, answer, why, sizeof why)) {
    return true;
  }
  idem_request_log(context->request, NULL, IDEM_LOG_WARN, "an answer does not fit", why);
  return false;
}

/* Those of the answers that were asked for and fit; the others count as not given. */
static bool take_answers(idem__context *context, yyjson_val *answers, yyjson_val *contracts) {
  idem_buf text;
  size_t i, max;
  yyjson_val *key, *contract;
  idem_buf_init(&text, &context->worker->alloc, idem__answer_bytes(context->server));
  idem__writer writer = idem__writer_on(&text);
  idem__write_object(&writer);
  idem_each_member(contracts, i, max, key, contract) {
    yyjson_val *answer = yyjson_obj_get(answers, yyjson_get_str(key));
    if (answer && fits(context, contract, answer)) {
      idem__write_member_value(&writer, yyjson_get_str(key), answer);
    }
  }
  idem__write_object_end(&writer);
  context->answers = idem__input_parse(context, &text, writer.status);
  idem_buf_deinit(&text);
  return context->answers != NULL;
}

bool idem__input_read(idem__context *context, yyjson_val *params) {
  if (!idem__revision_has(context->revision, IDEM__R_MODERN)) return true;
  yyjson_val *answers = yyjson_obj_get(params, "inputResponses"), *contracts = NULL;
  yyjson_val *sealed = yyjson_obj_get(params, "requestState");
  if (answers && !yyjson_is_obj(answers)) {
    idem__reply_bad_param(context, "inputResponses", "object", answers);
    return false;
  }
  if (sealed && !read_state(context, sealed, &contracts)) return false;
  if (!contracts) context->early = answers;
  if (!answers || !contracts || take_answers(context, answers, contracts)) return true;
  idem_request_drop(context->request);
  return false;
}

/* --------------------------------------------------------------------- modern */

static idem_status put_sealed(const idem__context *context, const idem_ask *asks, size_t count,
                              const void *state, size_t len, idem_buf *out) {
  sealed_head head = {.has_state = state != NULL};
  idem_status status = idem_buf_put(out, &head, sizeof head);
  idem__writer writer = idem__writer_on(out);
  if (status != IDEM_OK || len > IDEM__STATE_MAX) return status == IDEM_OK ? IDEM_E_LIMIT : status;
  if (count) idem__write_object(&writer);
  for (size_t i = 0; i < count; i++) {
    idem__write_key(&writer, asks[i].key);
    idem__ask_write_contract(context, &asks[i], &writer);
  }
  if (count) idem__write_object_end(&writer);
  if (writer.status != IDEM_OK) return writer.status;
  size_t contracts = out->len - sizeof head;
  for (size_t i = 0; i < 4; i++) head.contracts[i] = (uint8_t)(contracts >> (24 - i * 8));
  memcpy(out->data, &head, sizeof head);
  return state ? idem_buf_put(out, state, len) : IDEM_OK;
}

static idem_status write_sealed(idem__context *context, const idem_ask *asks, size_t count,
                                const void *state, size_t len, idem__writer *writer) {
  idem_buf plain, sealed;
  idem_buf_init(&plain, &context->worker->alloc, IDEM__SEALED_MAX);
  idem_buf_init(&sealed, &context->worker->alloc, (size_t)1 << 20);
  idem_status status = put_sealed(context, asks, count, state, len, &plain);
  if (status == IDEM_OK) status = idem__state_seal(context, plain.data, plain.len, &sealed);
  if (status == IDEM_OK) {
    idem__write_key(writer, "requestState");
    idem__write_string(writer, sealed.data, sealed.len);
  }
  idem_buf_deinit(&sealed);
  idem_buf_deinit(&plain);
  return status;
}

static idem_status run_again(idem__context *context, const void *state, size_t state_len) {
  idem_status status = idem__input_keep_state(context, state, state_len);
  idem_request_keep(context->request);
  if (status == IDEM_OK)
    idem__context_rerun(context);
  else
    idem_request_drop(context->request);
  return status;
}

/* Answers that came unasked are held back until the handler asks: then it is known what they must be. True:
 * all are there and fit, and are the request's answers now. */
static bool take_early(idem__context *context, const idem_ask *asks, size_t count) {
  yyjson_val *early = context->early;
  idem_buf text;
  idem__writer writer = idem__writer_on(&text);
  context->early = NULL; /* good for one round */
  if (!early || !count) return false;
  idem_buf_init(&text, &context->worker->alloc, idem__answer_bytes(context->server));
  idem__write_object(&writer);
  for (size_t i = 0; i < count; i++) {
    idem__write_key(&writer, asks[i].key);
    idem__ask_write_contract(context, &asks[i], &writer);
  }
  idem__write_object_end(&writer);
  yyjson_val *contracts = idem__input_parse(context, &text, writer.status);
  idem_buf_deinit(&text);
  if (!contracts || !take_answers(context, early, contracts)) return false;
  if (yyjson_obj_size(context->answers) == count) return true;
  context->answers = NULL;
  return false;
}

/* What was asked travels with the state, so that whoever gets the answers knows what they must be. */
static idem_status ask_modern(idem__context *context, const idem_ask *asks, size_t count,
                              const void *state, size_t state_len) {
  if (take_early(context, asks, count)) return run_again(context, state, state_len);
  idem__result result;
  idem__result_begin(&result, context, "input_required");
  context->outcome = IDEM__OUTCOME_ASKED;
  if (count) {
    idem__write_key(&result.writer, "inputRequests");
    idem__write_object(&result.writer);
    for (size_t i = 0; i < count; i++) {
      idem__write_key(&result.writer, asks[i].key);
      idem__ask_write(context, &asks[i], &result.writer);
    }
    idem__write_object_end(&result.writer);
  }
  idem_status status = write_sealed(context, asks, count, state, state_len, &result.writer);
  if (status != IDEM_OK && result.writer.status == IDEM_OK) result.writer.status = status;
  return idem__result_end(&result, NULL);
}

/* ---------------------------------------------------------------------- asking */

#define NEEDED "Accept: application/json, text/event-stream"
static const char streamless[] =
    "This has to ask the client on an event stream, which its request rules out; send " NEEDED ".";

idem_status idem__refuse_streamless(idem__context *context) {
  static const char data[] = "{\"reason\":\"unavailable\",\"hint\":\"" NEEDED "\"}";
  char text[IDEM__CAUSE];
  const char *cause =
      idem__cause(context, text, "Invalid Request: this needs an event stream; send %s", NEEDED);
  return idem__refuse_for(context, 406, IDEM_RPC_INVALID_REQUEST, cause, data, sizeof data - 1);
}

/* A question that is none is the handler's fault: the log says what is wrong with it. */
static idem_status refuse_wrong(idem__context *context, const idem_ask *ask,
                                const idem__ask_fault *fault) {
  char detail[384];
  snprintf(detail, sizeof detail, "%.64s: %s", ask->key ? ask->key : "", fault->sentence);
  idem_request_log(context->request, NULL, IDEM_LOG_ERROR, "a handler asked what cannot be asked",
                   detail);
  idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
  return IDEM_E_INVAL;
}

static bool asked_twice(const idem_ask *asks, size_t count) {
  for (size_t i = 0; i + 1 < count; i++) {
    if (strcmp(asks[i].key, asks[count - 1].key) == 0) return true;
  }
  return false;
}

/* What is not asked has been answered then. */
static idem_status check_asks(idem__context *context, const idem_ask *asks, size_t count,
                              bool *answered) {
  *answered = true;
  for (size_t i = 0; i < count; i++) {
    idem__ask_fault fault;
    if (!idem__ask_check(context, &asks[i], &fault)) {
      return fault.required ? refuse_ask(context, fault.required)
                            : refuse_wrong(context, &asks[i], &fault);
    }
    if (asked_twice(asks, i + 1)) {
      snprintf(fault.sentence, sizeof fault.sentence, "the key of another question, too");
      return refuse_wrong(context, &asks[i], &fault);
    }
  }
  *answered = false;
  return IDEM_OK;
}

idem_status idem__input_check_urls(idem__context *context, const idem_ask *asks, size_t count,
                                   bool *answered) {
  static const idem__ask_fault fault = {.sentence = "kind: expected addresses to visit"};
  bool urls = count > 0;
  for (size_t i = 0; i < count; i++) urls = urls && asks[i].kind == IDEM_ASK_URL;
  *answered = true;
  if (!urls) return refuse_wrong(context, count ? asks : &(idem_ask){.key = ""}, &fault);
  return check_asks(context, asks, count, answered);
}

idem_status idem_needs_input(idem_request *request, const idem_ask *asks, size_t count,
                             const void *state, size_t state_len) {
  idem__context *context = idem__context_of(request);
  if (!idem__request_in_use(request)) return IDEM_E_STATE;
  if (!context) return idem__reply_misplaced(request);
  if (idem_request_cancelled(request) || (idem__request_settled(request) && !context->task)) {
    idem_request_drop(request); /* nobody would run it again */
    return IDEM_E_CLOSED;
  }
  bool answered = false;
  idem_status status = check_asks(context, asks, count, &answered);
  if (answered) return status;
  if (context->task) return idem__task_ask(context, asks, count, state, state_len);
  if (idem__revision_has(context->revision, IDEM__R_MODERN)) {
    return ask_modern(context, asks, count, state, state_len);
  }
  if (count && !idem__can_reach(context)) {
    idem__context_lacks(context);
    if (!context->tool) return idem__refuse_streamless(context);
    tell_refused(context, "this needs an event stream; send ", NEEDED);
    return idem_tool_failed(request, streamless);
  }
  return idem__input_ask(context, asks, count, state, state_len);
}
