/* input_round.c - questions to a client of before 2026-07-28: each is a request of our own on its conn, and
 * the handler runs again when the last of a round is answered. */
#include "ask.h"
#include "input.h"
#include "result.h"
#include "server.h"
#include "session.h"

#include <string.h>

#define ROUNDS_MAX 8u

/* The questions of one round, on their way to a legacy client. Lives in the request's memory. */
typedef struct question {
  struct idem__round *round;
  char *key;
  char *contract;
  uint64_t call;
  bool pending;
  char *answer; /* JSON; NULL: none yet */
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
static yyjson_val *collect(idem__context *context, const idem__round *round) {
  idem_buf text;
  idem_buf_init(&text, &context->worker->alloc, idem__answer_bytes(context->server));
  idem__writer writer = idem__writer_on(&text);
  idem__write_object(&writer);
  for (size_t i = 0; i < round->count; i++) {
    idem__write_member_raw(&writer, round->questions[i].key, round->questions[i].answer);
  }
  idem__write_object_end(&writer);
  yyjson_val *object = idem__input_parse(context, &text, writer.status);
  idem_buf_deinit(&text);
  return object;
}

static void finish_round(idem__round *round) {
  idem__context *context = round->context;
  if (round->over || round->starting || round->waiting) return;
  round->over = true;
  context->round = NULL;
  context->answers = collect(context, round);
  if (!context->answers)
    idem_request_drop(context->request);
  else if (!idem__work_grow(context->request, 0))
    idem__refuse_for_room(context, IDEM_E_LIMIT);
  else
    idem__context_rerun(context);
}

static char *keep_text(idem__context *context, const char *text, size_t len) {
  char *copy = idem__arena_malloc(idem__request_memory(context->request), len + 1);
  if (!copy) return NULL;
  memcpy(copy, text, len);
  copy[len] = '\0';
  return copy;
}

/* What a response comes to as the answer to its question. False: it is none. */
static bool write_answer(const question *asked, const idem_response *response, idem_buf *text,
                         idem_status *status) {
  const idem__context *context = asked->round->context;
  idem__writer writer = idem__writer_on(text);
  text->len = 0;
  bool fits = idem__answer_write(context->worker, context->revision, asked->contract,
                                 strlen(asked->contract), response, &writer);
  *status = writer.status;
  return fits;
}

static void take_response(question *asked, const idem_response *response) {
  idem__context *context = asked->round->context;
  idem_buf text;
  idem_status status;
  idem_buf_init(&text, &context->worker->alloc, idem__answer_bytes(context->server));
  bool fits = write_answer(asked, response, &text, &status);
  if (fits && !idem__work_grow(context->request, text.len + 1)) /* it waits for the others */
    fits = write_answer(asked, &(idem_response){.status = IDEM_E_LIMIT}, &text, &status);
  if (status == IDEM_OK) asked->answer = keep_text(context, text.data, text.len);
  if (!fits) {
    idem_request_log(context->request, NULL, IDEM_LOG_WARN, "a question was not answered",
                     asked->answer ? asked->answer : "");
  }
  idem_buf_deinit(&text);
}

/* The end of the conn ends the request as well: its handler is told so, not run again. */
static void on_answer(idem_conn *conn, const idem_response *response, void *user) {
  question *asked = user;
  idem__round *round = asked->round;
  asked->pending = false;
  if (round->over || idem__conn_going(conn)) return;
  take_response(asked, response);
  round->waiting--;
  finish_round(round);
}

static idem_status send_question(idem__context *context, const idem_ask *ask, question *asked) {
  idem_buf params;
  idem_buf_init(&params, &context->worker->alloc, (size_t)16 << 20);
  idem__writer writer = idem__writer_on(&params);
  idem__ask_write_params(context, ask, &writer);
  idem_status status = writer.status;
  if (status == IDEM_OK) {
    asked->pending = true; /* it may be answered before the call returns */
    asked->round->waiting++;
    status =
        idem_call_json(asked->round->conn, idem__ask_method(ask->kind), params.data, params.len,
                       &(idem_call_opts){.timeout_ms = context->server->opts.input_ms}, on_answer,
                       asked, &asked->call);
    if (status != IDEM_OK) asked->pending = false;
  }
  idem_buf_deinit(&params);
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

/* Nobody will answer its first question: with its key somebody else may be asked. After a round it may have done what is not done twice. */
static void on_asker_cancelled(idem_request *request, idem_cancel_reason reason, void *user) {
  idem__context *context = user;
  (void)reason;
  context->unmet = context->rounds == 1;
  idem__input_cancel(context);
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

static char *keep_contract(idem__context *context, const idem_ask *ask) {
  idem_buf text;
  idem_buf_init(&text, &context->worker->alloc, idem__answer_bytes(context->server));
  idem__writer writer = idem__writer_on(&text);
  idem__ask_write_contract(context, ask, &writer);
  char *copy = writer.status == IDEM_OK ? keep_text(context, text.data, text.len) : NULL;
  idem_buf_deinit(&text);
  return copy;
}

static idem_status start_round(idem__context *context, const idem_ask *asks, size_t count) {
  idem__round *round = new_round(context, count);
  if (!round) return IDEM_E_NOMEM;
  context->round = round;
  for (size_t i = 0; i < count; i++) {
    question *asked = &round->questions[i];
    asked->round = round;
    asked->key = keep_text(context, asks[i].key, strlen(asks[i].key));
    asked->contract = keep_contract(context, &asks[i]);
    if (!asked->key || !asked->contract) return IDEM_E_NOMEM;
    idem_status status = send_question(context, &asks[i], asked);
    if (status != IDEM_OK) return status;
  }
  round->starting = false;
  return IDEM_OK;
}

bool idem__can_reach(const idem__context *context) {
  const idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  return peer && (!peer->edge || peer->edge->can_reach(peer->edge_ctx));
}

idem_status idem__input_ask(idem__context *context, const idem_ask *asks, size_t count,
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
