/* modern.c - single requests of 2026-07-28: rounds of questions with state that may be tampered with,
 * tasks of the extension, subscriptions that are left. */
#include "attack.h"

#include <stdlib.h>
#include <string.h>

#define CAN                                                                                        \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/"                                                                     \
  "clientCapabilities\":{\"sampling\":{},\"elicitation\":{},\"roots\":{},"                         \
  "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}"

static const char responses[] =
    "{\"user_name\":{\"action\":\"accept\",\"content\":{\"name\":\"x\"}},"
    "\"form\":{\"action\":\"decline\"},\"confirm\":{\"action\":\"accept\",\"content\":{\"ok\":true,"
    "\"confirm\":true}},\"step1\":{\"action\":\"accept\",\"content\":{\"name\":\"x\"}},"
    "\"step2\":{\"action\":\"accept\",\"content\":{\"name\":\"x\"}},"
    "\"first\":{\"action\":\"accept\",\"content\":{\"name\":\"x\"}},"
    "\"second\":{\"action\":\"cancel\"},\"client_roots\":{\"roots\":[]},"
    "\"question\":{\"role\":\"assistant\",\"content\":{\"type\":\"text\",\"text\":\"t\"},\"model\":"
    "\"m\"},\"capital_question\":{\"role\":\"assistant\",\"content\":{\"type\":\"text\",\"text\":"
    "\"t\"},\"model\":\"m\"}}";

/* Its answer in `answer`; empty when it was left before it came. */
static void ask(attacker *self, ledger *asked, const char *method, const char *name,
                const char *members, text *answer) {
  const char *id = ledger_new_id(asked, true), *message;
  text body = {.data = NULL}, headers = {.data = NULL}, request = {.data = NULL};
  answer->len = 0;
  text_printf(&body, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"%s\",\"params\":{%s%s" CAN "}}",
              id, method, members, members[0] ? "," : "");
  text_printf(&headers,
              "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
              "Mcp-Method: %s\r\n",
              method);
  if (name) text_printf(&headers, "Mcp-Name: %s\r\n", name);
  http_request(&request, "POST", "/mcp", headers.data, body.data);
  wire line = wire_tcp(self, self->server->http);
  ledger_ask(asked, id);
  wire_send(&line, request.data, request.len);
  bool leave = strstr(body.data, "test_slow") || chance_one_in(&self->luck, 6);
  if (leave) {
    ledger_excuse(asked, id);
    wire_peek(&line, chance_below(&self->luck, 20));
    wire_end(&line, strstr(body.data, "test_slow") ? RESET_IT : wire_any_farewell(self));
  } else {
    exchange reply;
    if (!http_begin(&reply, &line)) attack_found(self, "closed instead of answering %s", id);
    while ((message = http_message(&reply)))
      if (ledger_hear(asked, message, strlen(message)) == ANSWER)
        text_printf(answer, "%s", message);
    http_free(&reply);
    wire_end(&line, CLOSE_IT);
  }
  text_free(&body);
  text_free(&headers);
  text_free(&request);
}

static void next_round(attacker *self, text *members, const mcp_call *call, const text *answer) {
  char *state = message_string(answer->data, "requestState");
  members->len = 0;
  text_printf(members, "\"name\":\"%s\",\"arguments\":%s,\"inputResponses\":%s", call->tool,
              call->arguments, chance_one_in(&self->luck, 5) ? "{}" : responses);
  if (state) {
    size_t len = strlen(state);
    if (len && chance_one_in(&self->luck, 5)) state[chance_below(&self->luck, (unsigned)len)] = 'A';
    text_printf(members, ",\"requestState\":\"%s\"", state);
  }
  free(state);
}

static void follow_task(attacker *self, ledger *asked, const char *task, text *answer) {
  static const char *const methods[] = {"tasks/get", "tasks/get", "tasks/update", "tasks/cancel"};
  text members = {.data = NULL};
  for (unsigned i = chance_below(&self->luck, 5); i; i--) {
    const char *method = CHANCE_OF(&self->luck, methods);
    members.len = 0;
    text_printf(&members, "\"taskId\":\"%s\"", task);
    if (strcmp(method, "tasks/update") == 0)
      text_printf(&members, ",\"inputResponses\":%s", responses);
    ask(self, asked, method, task, members.data, answer);
  }
  text_free(&members);
}

static void call_tool(attacker *self, ledger *asked) {
  const mcp_call *call = mcp_any_call(self);
  text members = {.data = NULL}, answer = {.data = NULL};
  text_printf(&members, "\"name\":\"%s\",\"arguments\":%s", call->tool, call->arguments);
  for (unsigned round = 0; round < 4; round++) {
    ask(self, asked, "tools/call", call->tool, members.data, &answer);
    if (!answer.len) break;
    char *task = message_string(answer.data, "taskId");
    if (task) follow_task(self, asked, task, &answer);
    bool over = task || !answer.data || !strstr(answer.data, "\"input_required\"");
    free(task);
    if (over) break;
    next_round(self, &members, call, &answer);
  }
  text_free(&members);
  text_free(&answer);
}

/* Held open while others change what is listened for, then left. */
static void subscribe(attacker *self, ledger *asked) {
  const char *id = ledger_new_id(asked, true), *message;
  text body = {.data = NULL}, request = {.data = NULL};
  text_printf(&body,
              "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"subscriptions/listen\",\"params\":{"
              "\"notifications\":{\"toolsListChanged\":true,\"promptsListChanged\":true,"
              "\"resourceSubscriptions\":[\"test://watched-resource\"]}," CAN "}}",
              id);
  http_request(&request, "POST", "/mcp",
               "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
               "Mcp-Method: subscriptions/listen\r\n",
               body.data);
  wire line = wire_tcp(self, self->server->http);
  ledger_excuse(asked, id);
  wire_send(&line, request.data, request.len);
  if (!chance_one_in(&self->luck, 4)) {
    exchange reply;
    if (!http_begin(&reply, &line)) attack_found(self, "no stream");
    if ((message = http_message(&reply))) ledger_hear(asked, message, strlen(message));
    http_free(&reply);
    call_tool(self, asked);
  }
  wire_end(&line, chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
  text_free(&body);
  text_free(&request);
}

void attack_modern(attacker *self) {
  ledger asked = {.owner = self};
  text answer = {.data = NULL};
  for (unsigned i = chance_below(&self->luck, 4) + 1; i; i--) {
    switch (chance_below(&self->luck, 4)) {
    case 0: subscribe(self, &asked); break;
    case 1: ask(self, &asked, "server/discover", NULL, "", &answer); break;
    default: call_tool(self, &asked);
    }
  }
  text_free(&answer);
  ledger_close(&asked);
}
