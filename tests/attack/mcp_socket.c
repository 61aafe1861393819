/* mcp_socket.c - MCP over WebSocket: calls that ask, tasks and cancellations on one connection, which
 * ends at any moment. */
#include "web_socket.h"

#include <stdlib.h>
#include <string.h>

static void say(wire *line, text *bytes, const char *message) {
  bytes->len = 0;
  socket_message(line->owner, bytes, message);
  wire_send(line, bytes->data, bytes->len);
}

static void answer(wire *line, text *bytes, const char *question) {
  text body = {.data = NULL};
  mcp_answer(&body, line->owner, question);
  say(line, bytes, body.data);
  text_free(&body);
}

/* One more request; cancelled at once, at times. */
static const char *ask(wire *line, ledger *asked, text *bytes) {
  attacker *self = line->owner;
  const char *id = ledger_new_id(asked, true);
  const mcp_call *call = mcp_any_call(self);
  text body = {.data = NULL};
  if (chance_one_in(&self->luck, 3))
    mcp_legacy_other(&body, self, id);
  else
    mcp_legacy_call(&body, self, call, id, call->task && chance_one_in(&self->luck, 2));
  bool slow = strstr(body.data, "test_slow") != NULL;
  ledger_ask(asked, id);
  say(line, bytes, body.data);
  if (slow || chance_one_in(&self->luck, 5)) {
    ledger_excuse(asked, id);
    body.len = 0;
    text_printf(&body,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                "\"requestId\":%s}}",
                id);
    if (!slow || chance_one_in(&self->luck, 2)) say(line, bytes, body.data);
  }
  text_free(&body);
  return id;
}

static void hear(wire *line, ledger *asked, text *bytes, const char *until) {
  text message = {.data = NULL};
  unsigned closed = 0;
  while (ledger_owes(asked, until)) {
    if (!socket_next(line, &message, &closed))
      attack_found(line->owner, "closed (%u) before the answer to %s", closed, until);
    if (ledger_hear(asked, message.data, message.len) == QUESTION)
      answer(line, bytes, message.data);
  }
  text_free(&message);
}

void attack_mcp_socket(attacker *self) {
  static const char *const revisions[] = {"2025-11-25", "2025-11-25", "2025-06-18", "2024-11-05"};
  ledger asked = {.owner = self};
  wire line = wire_tcp(self, self->server->http);
  text bytes = {.data = NULL}, body = {.data = NULL};
  if (!socket_open(&line, "/mcp")) attack_found(self, "no upgrade");
  const char *id = ledger_new_id(&asked, true);
  mcp_hello(&body, self, id, CHANCE_OF(&self->luck, revisions));
  ledger_ask(&asked, id);
  say(&line, &bytes, body.data);
  hear(&line, &asked, &bytes, id);
  for (unsigned i = chance_below(&self->luck, 12) + 1; i; i--) {
    id = ask(&line, &asked, &bytes);
    if (chance_one_in(&self->luck, 2)) hear(&line, &asked, &bytes, id);
  }
  wire_end(&line, chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
  ledger_free(&asked);
  text_free(&bytes);
  text_free(&body);
}
