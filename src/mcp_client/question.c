/* question.c - what a server wants from the user or the model, with the program's handler until it is answered.
 * In a legacy revision it is a request of the server's, in 2026-07-28 a piece of a call's round; the handler sees no
 * difference. It owns what it shows, so that it may outlive the call, the conn and the client.
 * See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <stdio.h>
#include <string.h>

struct idem_mcp_question {
  idem_alloc alloc;
  idem_mcp_client *client; /* NULL: gone */
  idem_list link;          /* in the client's */
  idem_request *request;   /* of a legacy server; NULL: none, or it is over */
  idem__mcp_call *call;    /* whose round it is part of; NULL: none, or it is over */
  size_t index;            /* in the round */
  idem_ask_kind kind;
  yyjson_doc *doc;
  bool kept, answered, asking;
};

/* -------------------------------------------------------------------- the life */

static void leave_client(idem_mcp_question *question) {
  idem_mcp_client *client = question->client;
  if (!client) return;
  idem_list_remove(&question->link);
  client->question_count--;
  if (question->request) client->asked_by_server--;
  question->client = NULL;
}

static void free_question(idem_mcp_question *question) {
  leave_client(question);
  yyjson_doc_free(question->doc);
  idem_alloc alloc = question->alloc;
  idem__free(&alloc, question);
}

/* Nobody waits for the answer any more. */
static void close_question(idem_mcp_question *question) {
  idem_request *request = question->request;
  if (request && question->client) question->client->asked_by_server--;
  question->request = NULL;
  question->call = NULL;
  leave_client(question);
  if (request) idem_request_drop(request);
  if (question->answered && !question->asking) free_question(question);
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  idem_mcp_question *question = user;
  if (question->request == request) close_question(question);
}

void idem__mcp_questions_close(idem_mcp_client *client) {
  while (!idem_list_empty(&client->questions))
    close_question(IDEM_CONTAINER(client->questions.next, idem_mcp_question, link));
}

void idem__mcp_questions_leave(const idem__mcp_call *call) {
  idem_mcp_client *client = call->client;
  for (idem_list *node = client->questions.next, *next; node != &client->questions; node = next) {
    idem_mcp_question *question = IDEM_CONTAINER(node, idem_mcp_question, link);
    next = node->next;
    if (question->call == call) close_question(question);
  }
}

static idem_status copy_params(idem_mcp_question *question, yyjson_val *params) {
  idem_buf text;
  idem_buf_init(&text, &question->alloc, question->client->opts.message_bytes);
  idem_status status = params ? idem__json_put(&text, params) : idem_buf_puts(&text, "{}");
  yyjson_alc alc = idem__json_alc(&question->alloc);
  if (status == IDEM_OK)
    question->doc = yyjson_read_opts(text.data, text.len, YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
  idem_buf_deinit(&text);
  return question->doc ? IDEM_OK : IDEM_E_NOMEM;
}

static idem_status new_question(idem_mcp_client *client, idem_ask_kind kind, yyjson_val *params,
                                idem_mcp_question **out) {
  if (client->question_count >= client->opts.max_questions) return IDEM_E_LIMIT;
  idem_mcp_question *question = idem__calloc(&client->alloc, sizeof *question);
  if (!question) return IDEM_E_NOMEM;
  question->alloc = client->alloc;
  question->client = client;
  question->kind = kind;
  idem_list_append(&client->questions, &question->link);
  client->question_count++;
  idem_status status = copy_params(question, params);
  if (status != IDEM_OK)
    free_question(question);
  else
    *out = question;
  return status;
}

/* Which handler it is for. STATE: none, or it is no such question. */
static idem_status kind_of(const idem_mcp_client *client, bool sampling, yyjson_val *params,
                           idem_ask_kind *kind) {
  const idem_mcp_client_opts *opts = &client->opts;
  yyjson_val *mode = yyjson_obj_get(params, "mode");
  bool url = yyjson_equals_str(mode, "url");
  if (!yyjson_is_obj(params)) return IDEM_E_INVAL;
  if (sampling) {
    *kind = IDEM_ASK_SAMPLING;
    if (!yyjson_is_arr(yyjson_obj_get(params, "messages"))) return IDEM_E_INVAL;
    if (yyjson_obj_get(params, "tools") && !opts->sampling_tools) return IDEM_E_INVAL;
    return opts->on_sampling ? IDEM_OK : IDEM_E_STATE;
  }
  *kind = url ? IDEM_ASK_URL : IDEM_ASK_FORM;
  if (!yyjson_is_str(yyjson_obj_get(params, "message"))) return IDEM_E_INVAL;
  if (url && !yyjson_is_str(yyjson_obj_get(params, "url"))) return IDEM_E_INVAL;
  if (!url && mode && !yyjson_equals_str(mode, "form")) return IDEM_E_INVAL;
  if (!url && !yyjson_is_obj(yyjson_obj_get(params, "requestedSchema"))) return IDEM_E_INVAL;
  return (url ? opts->on_url : opts->on_form) ? IDEM_OK : IDEM_E_INVAL;
}

static void hand_over(idem_mcp_question *question) {
  idem_mcp_client *client = question->client;
  const idem_mcp_client_opts *opts = &client->opts;
  idem_mcp_question_fn fn = question->kind == IDEM_ASK_SAMPLING ? opts->on_sampling
                            : question->kind == IDEM_ASK_URL    ? opts->on_url
                                                                : opts->on_form;
  question->asking = true;
  fn(client, question, opts->user);
  question->asking = false;
  if (question->answered)
    free_question(question);
  else if (!question->kept)
    idem_mcp_dismiss(question);
}

/* -------------------------------------------------------------- how they come */

idem_status idem__mcp_question_ask(idem__mcp_call *call, size_t index, yyjson_val *method,
                                   yyjson_val *params) {
  idem_mcp_client *client = call->client;
  bool sampling = yyjson_equals_str(method, "sampling/createMessage");
  idem_ask_kind kind;
  idem_mcp_question *question;
  if (!sampling && !yyjson_equals_str(method, "elicitation/create")) return IDEM_E_STATE;
  if (kind_of(client, sampling, params, &kind) != IDEM_OK) return IDEM_E_STATE;
  idem_status status = new_question(client, kind, params, &question);
  if (status != IDEM_OK) return status;
  question->call = call;
  question->index = index;
  uint64_t handle = call->handle;
  hand_over(question);
  return idem__mcp_call_find(client, handle) == call ? IDEM_OK : IDEM_E_CANCELLED;
}

void idem__mcp_question_request(idem_mcp_client *client, idem_request *request, yyjson_val *params,
                                bool sampling) {
  idem_ask_kind kind;
  idem_mcp_question *question;
  idem_status status = kind_of(client, sampling, params, &kind);
  if (status == IDEM_OK) status = new_question(client, kind, params, &question);
  if (status == IDEM_E_STATE) {
    idem_reply_error(request, IDEM_RPC_METHOD_NOT_FOUND, "Method not found", NULL);
  } else if (status == IDEM_E_INVAL) {
    idem_reply_error(request, IDEM_RPC_INVALID_PARAMS, "Invalid params", NULL);
  } else if (status != IDEM_OK) {
    idem_reply_error(request, IDEM_RPC_INTERNAL_ERROR, "Internal error", NULL);
  } else {
    idem_request_keep(request);
    idem_request_on_cancel(request, on_cancel, question);
    question->request = request;
    client->asked_by_server++;
    hand_over(question);
  }
}

/* ------------------------------------------------------------------- looking */

idem_ask_kind idem_mcp_question_kind(const idem_mcp_question *question) { return question->kind; }
yyjson_val *idem_mcp_question_params(const idem_mcp_question *question) {
  return yyjson_doc_get_root(question->doc);
}
uint64_t idem_mcp_question_call(const idem_mcp_question *question) {
  return question->call ? question->call->handle : 0;
}
bool idem_mcp_question_open(const idem_mcp_question *question) {
  return !question->answered && (question->request || question->call);
}
void idem_mcp_question_keep(idem_mcp_question *question) { question->kept = true; }

/* ----------------------------------------------------------------- answering */

/* The last word: the question is gone, unless its handler is still on the stack. */
static idem_status answer(idem_mcp_question *question, const char *json, size_t len) {
  idem_request *request = question->request;
  idem__mcp_call *call = question->call;
  size_t index = question->index;
  bool open = idem_mcp_question_open(question);
  idem_status status = open ? IDEM_OK : IDEM_E_CLOSED;
  if (request && question->client) question->client->asked_by_server--;
  question->request = NULL;
  question->call = NULL;
  question->answered = true;
  leave_client(question);
  if (!question->asking) free_question(question);
  if (open && request)
    status = idem__reply_own(request, json, len);
  else if (open && call)
    idem__mcp_round_answer(call, index, json, len);
  return status;
}

/* Sampling has no result that means no: an error in the older era, no further round in the newer. */
static idem_status refuse_sampling(idem_mcp_question *question) {
  idem_request *request = question->request;
  idem__mcp_call *call = question->call;
  bool open = idem_mcp_question_open(question);
  if (request && question->client) question->client->asked_by_server--;
  question->request = NULL;
  question->call = NULL;
  question->answered = true;
  leave_client(question);
  if (!question->asking) free_question(question);
  if (open && request) return idem_reply_error(request, -1, "User rejected sampling request", NULL);
  if (open && call) idem__mcp_round_refuse(call, "sampling was refused");
  return open ? IDEM_OK : IDEM_E_CLOSED;
}

#define ANSWER(question, literal) answer((question), "" literal, sizeof(literal) - 1)

idem_status idem_mcp_decline(idem_mcp_question *question) {
  if (question->kind == IDEM_ASK_SAMPLING) return refuse_sampling(question);
  return ANSWER(question, "{\"action\":\"decline\"}");
}

idem_status idem_mcp_dismiss(idem_mcp_question *question) {
  if (question->kind == IDEM_ASK_SAMPLING) return refuse_sampling(question);
  return ANSWER(question, "{\"action\":\"cancel\"}");
}

idem_status idem_mcp_sampled(idem_mcp_question *question, const yyjson_mut_val *result) {
  if (question->kind != IDEM_ASK_SAMPLING || !yyjson_mut_is_obj(idem__mcp_mutable(result)) ||
      !yyjson_mut_is_str(yyjson_mut_obj_get(idem__mcp_mutable(result), "model")) ||
      !yyjson_mut_is_str(yyjson_mut_obj_get(idem__mcp_mutable(result), "role")))
    return IDEM_E_INVAL;
  idem_alloc alloc = question->alloc; /* which is gone with its answer */
  idem_buf text;
  idem_buf_init(&text, &alloc, (size_t)64 << 20);
  idem_status status = idem__json_put_mut(&text, result);
  if (status == IDEM_OK)
    status = answer(question, text.data, text.len);
  else if (status != IDEM_E_INVAL)
    (void)refuse_sampling(question);
  idem_buf_deinit(&text);
  return status;
}

/* --------------------------------------------------------------------- forms */

/* What is being filled in. */
typedef struct form {
  idem_mcp_question *question;
  idem_alloc alloc; /* the question is gone with its answer */
  idem_schema *schema;
  idem_buf text;
  yyjson_doc *given;
  yyjson_mut_doc *filled;
  char *why;
  size_t why_len;
  bool answered;
} form;

static void say(const form *self, const char *text) {
  if (self->why && self->why_len) snprintf(self->why, self->why_len, "%s", text);
}

static idem_status compile_form(form *self) {
  yyjson_val *schema = yyjson_obj_get(idem_mcp_question_params(self->question), "requestedSchema");
  idem_schema_fault fault;
  idem_schema_opts opts = {.alloc = &self->alloc, .assert_formats = true, .max_subschemas = 2000};
  idem_status status = idem_schema_compile_value(&opts, schema, &self->schema, &fault);
  if (status != IDEM_OK) say(self, fault.sentence);
  return status == IDEM_E_LIMIT ? IDEM_E_INVAL : status;
}

/* The content as values of its own, with the defaults that it lacks. */
static idem_status fill_form(form *self, const yyjson_mut_val *content, yyjson_mut_val **out) {
  yyjson_alc alc = idem__json_alc(&self->alloc);
  idem_schema_shape shape = {.fill_defaults = true};
  idem_status status =
      content ? idem__json_put_mut(&self->text, content) : idem_buf_puts(&self->text, "{}");
  if (status != IDEM_OK) return status;
  self->given =
      yyjson_read_opts(self->text.data, self->text.len, YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
  self->filled = self->given ? yyjson_mut_doc_new(&alc) : NULL;
  if (!self->filled) return IDEM_E_NOMEM;
  return idem_schema_apply(self->schema, yyjson_doc_get_root(self->given), &shape, self->filled,
                           out);
}

static idem_status check_form(form *self) {
  idem_schema_ctx *ctx;
  idem_schema_result verdict = {0};
  idem_schema_check check = {.root_name = "content"};
  idem_status status = idem_schema_ctx_new(&self->alloc, &ctx);
  if (status != IDEM_OK) return status;
  status = idem_schema_validate_text(self->schema, ctx, self->text.data, self->text.len, &check,
                                     &verdict);
  if (status == IDEM_OK && !verdict.valid) {
    if (verdict.error_count) say(self, verdict.errors[0].sentence);
    status = IDEM_E_INVAL;
  }
  idem_schema_ctx_free(ctx);
  return status;
}

static idem_status answer_form(form *self, const yyjson_mut_val *content) {
  yyjson_mut_val *filled = NULL;
  idem_status status = compile_form(self);
  if (status == IDEM_OK) status = fill_form(self, content, &filled);
  if (status != IDEM_OK) return status;
  self->text.len = 0;
  status = idem__json_put_mut(&self->text, filled);
  if (status == IDEM_OK) status = check_form(self);
  if (status != IDEM_OK) return status;
  idem_buf answer_text;
  idem_buf_init(&answer_text, &self->alloc, self->text.len + 64);
  status = idem_buf_puts(&answer_text, "{\"action\":\"accept\",\"content\":");
  if (status == IDEM_OK) status = idem_buf_put(&answer_text, self->text.data, self->text.len);
  if (status == IDEM_OK) status = idem_buf_puts(&answer_text, "}");
  self->answered = status == IDEM_OK;
  if (status == IDEM_OK) status = answer(self->question, answer_text.data, answer_text.len);
  idem_buf_deinit(&answer_text);
  return status;
}

idem_status idem_mcp_accept(idem_mcp_question *question, const yyjson_mut_val *content, char *why,
                            size_t why_len) {
  if (why && why_len) why[0] = 0;
  if (question->kind == IDEM_ASK_URL) return ANSWER(question, "{\"action\":\"accept\"}");
  if (question->kind != IDEM_ASK_FORM) return IDEM_E_INVAL;
  if (content && !yyjson_mut_is_obj(idem__mcp_mutable(content))) return IDEM_E_INVAL;
  form self = {.question = question, .alloc = question->alloc, .why = why, .why_len = why_len};
  idem_buf_init(&self.text, &self.alloc, (size_t)16 << 20);
  idem_status status = answer_form(&self, content);
  if (status == IDEM_E_LIMIT) {
    say(&self, "the form is too much to check");
    status = IDEM_E_INVAL;
  }
  if (status != IDEM_OK && status != IDEM_E_INVAL && !self.answered)
    (void)idem_mcp_dismiss(question);
  idem_buf_deinit(&self.text);
  yyjson_doc_free(self.given);
  yyjson_mut_doc_free(self.filled);
  idem_schema_free(self.schema);
  return status;
}
