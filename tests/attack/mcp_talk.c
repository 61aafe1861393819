/* mcp_talk.c - MCP on one connection, a WebSocket or pipes: calls that ask, tasks and cancellations,
 * and an end at any moment. */
#include "web_socket.h"

#include <signal.h>
#include <string.h>

typedef struct talk {
  wire *line;
  ledger asked;
  bool web_socket;
} talk;

static void say(talk *self, const char *message) {
  text bytes = {.data = NULL};
  if (self->web_socket)
    socket_message(self->line->owner, &bytes, message);
  else
    text_printf(&bytes, "%s\n", message);
  wire_send(self->line, bytes.data, bytes.len);
  text_free(&bytes);
}

static bool next(talk *self, text *message) {
  unsigned closed = 0;
  return self->web_socket ? socket_next(self->line, message, &closed)
                          : wire_line(self->line, message);
}

static void answer(talk *self, const char *question) {
  text body = {.data = NULL};
  mcp_answer(&body, self->line->owner, question);
  say(self, body.data);
  text_free(&body);
}

static void cancel(talk *self, const char *id) {
  text body = {.data = NULL};
  text_printf(&body,
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
              "\"requestId\":%s}}",
              id);
  say(self, body.data);
  text_free(&body);
}

/* One more request; cancelled at once, at times. */
static const char *ask(talk *self) {
  chance *luck = &self->line->owner->luck;
  const char *id = ledger_new_id(&self->asked, true);
  const mcp_call *call = mcp_any_call(self->line->owner);
  text body = {.data = NULL};
  if (chance_one_in(luck, 3))
    mcp_legacy_other(&body, self->line->owner, id);
  else
    mcp_legacy_call(&body, self->line->owner, call, id, call->task && chance_one_in(luck, 2));
  bool slow = strstr(body.data, "test_slow") != NULL, regret = chance_one_in(luck, 5);
  ledger_ask(&self->asked, id);
  say(self, body.data);
  if (slow || regret) ledger_excuse(&self->asked, id);
  if (regret) cancel(self, id);
  text_free(&body);
  return id;
}

static void hear(talk *self, const char *until) {
  text message = {.data = NULL};
  while (ledger_owes(&self->asked, until)) {
    if (!next(self, &message))
      attack_found(self->line->owner, "closed before the answer to %s", until);
    if (ledger_hear(&self->asked, message.data, message.len) == QUESTION)
      answer(self, message.data);
  }
  text_free(&message);
}

static void converse(talk *self) {
  static const char *const revisions[] = {"2025-11-25", "2025-11-25", "2025-06-18", "2024-11-05"};
  chance *luck = &self->line->owner->luck;
  text body = {.data = NULL};
  const char *id = ledger_new_id(&self->asked, true);
  mcp_hello(&body, self->line->owner, id, CHANCE_OF(luck, revisions));
  ledger_ask(&self->asked, id);
  say(self, body.data);
  hear(self, id);
  for (unsigned i = chance_below(luck, 12) + 1; i; i--) {
    id = ask(self);
    if (chance_one_in(luck, 2)) hear(self, id);
  }
  text_free(&body);
}

void attack_mcp_socket(attacker *self) {
  wire line = wire_tcp(self, self->server->http);
  talk with = {.line = &line, .asked.owner = self, .web_socket = true};
  if (!socket_open(&line, "/mcp")) attack_found(self, "no upgrade");
  converse(&with);
  wire_end(&line, chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
  ledger_free(&with.asked);
}

/* Whatever is in flight, the server ends in good order with its input, or on a signal. */
void attack_mcp_stdio(attacker *self) {
  char program[256];
  snprintf(program, sizeof program, "%s/idem-conformance-server", bin_folder);
  piped pipes = piped_start(self, (const char *const[]){program, NULL});
  talk with = {.line = &pipes.line, .asked.owner = self};
  converse(&with);
  if (chance_one_in(&self->luck, 2)) kill(pipes.pid, SIGTERM);
  piped_end(&pipes);
  ledger_free(&with.asked);
}
