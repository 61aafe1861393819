/* sse.c - the transport of 2024-11-05: posts at one URL, answers on a stream at another; readers that
 * stop and catch up, streams that end with questions open. */
#include "attack.h"

#include <stdlib.h>
#include <string.h>

#define LARGE 100000
#define OWED 250u       /* together more than a conn may have queued */
#define PROMPT_MS 8000u /* answers owed to a reader that caught up */

typedef struct stream {
  attacker *self;
  ledger asked;
  wire line;
  exchange reply;
  char path[SESSION_MAX];
} stream;

static void open_stream(stream *of) {
  text request = {.data = NULL};
  of->line = wire_tcp(of->self, of->self->server->http);
  http_request(&request, "GET", "/sse", "Accept: text/event-stream\r\n", NULL);
  wire_send(&of->line, request.data, request.len);
  text_free(&request);
  if (!http_begin(&of->reply, &of->line) || of->reply.status != 200)
    attack_found(of->self, "no stream: %d", of->reply.status);
  const char *path = http_message(&of->reply);
  if (!path || path[0] != '/') attack_found(of->self, "no endpoint");
  snprintf(of->path, sizeof of->path, "%s", path);
}

static int post(stream *of, const char *body) {
  text request = {.data = NULL};
  http_request(&request, "POST", of->path, "", body);
  int status = http_once(of->self, of->self->server->http, &request, NULL);
  text_free(&request);
  return status;
}

static void post_accepted(stream *of, const char *body) {
  int status = post(of, body);
  if (status != 202) attack_found(of->self, "status %d for %.200s", status, body);
}

static void hear(stream *of, const char *until) {
  const char *message;
  text answer = {.data = NULL};
  while (!ledger_answered(&of->asked, until)) {
    if (!(message = http_message(&of->reply)))
      attack_found(of->self, "the stream ended before the answer to %s", until);
    if (ledger_hear(&of->asked, message, strlen(message)) != QUESTION) continue;
    answer.len = 0;
    mcp_answer(&answer, of->self, message);
    post_accepted(of, answer.data);
  }
  text_free(&answer);
}

static const char *ask(stream *of, bool large) {
  const char *id = ledger_new_id(&of->asked, true);
  text body = {.data = NULL};
  if (large) {
    text filler = {.data = calloc(1, LARGE + 1), .len = LARGE, .cap = LARGE + 1};
    if (!filler.data) abort();
    memset(filler.data, 'z', LARGE);
    text_printf(&body,
                "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{\"name\":"
                "\"greet\",\"arguments\":{\"name\":\"%s\"}}}",
                id, filler.data);
    text_free(&filler);
  } else if (chance_one_in(&of->self->luck, 2)) {
    mcp_legacy_other(&body, of->self, id);
  } else {
    const mcp_call *call = mcp_any_call(of->self);
    mcp_legacy_call(&body, of->self, call, id, false);
    if (strcmp(call->tool, "test_slow") == 0) ledger_excuse(&of->asked, id);
  }
  ledger_ask(&of->asked, id);
  post_accepted(of, body.data);
  text_free(&body);
  return id;
}

/* More than the kernel holds is owed; once it is read, the rest must follow at once. */
static void stop_and_catch_up(stream *of) {
  const char *last = NULL;
  for (unsigned i = 0; i < OWED; i++) last = ask(of, true);
  uint64_t begun = now_ms();
  hear(of, last);
  if (now_ms() - begun > PROMPT_MS && !thread_sanitizer)
    attack_found(of->self, "a reader that caught up waited %u ms", (unsigned)(now_ms() - begun));
}

void attack_sse(attacker *self) {
  stream *of = calloc(1, sizeof *of);
  text body = {.data = NULL};
  if (!of) abort();
  of->self = self;
  of->asked.owner = self;
  open_stream(of);
  const char *id = ledger_new_id(&of->asked, true);
  mcp_hello(&body, self, id, "2024-11-05");
  ledger_ask(&of->asked, id);
  post_accepted(of, body.data);
  hear(of, id);
  for (unsigned i = chance_below(&self->luck, 8); i; i--) {
    id = ask(of, false);
    if (ledger_owes(&of->asked, id) && !chance_one_in(&self->luck, 3)) hear(of, id);
  }
  if (chance_one_in(&self->luck, 24)) stop_and_catch_up(of);
  http_free(&of->reply);
  wire_end(&of->line, chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
  if (chance_one_in(&self->luck, 3)) post(of, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
  ledger_free(&of->asked);
  text_free(&body);
  free(of);
}
