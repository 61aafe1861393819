/* programs.c - `idem serve`: programs that stay, flood or fail, called, cancelled and left by clients of
 * every transport; arguments that make patterns and queries work for ever. */
#include "attack.h"

#include <signal.h>
#include <string.h>

#define ACCEPT "Accept: application/json, text/event-stream\r\n"
#define LONG 160000
#define PATTERN 40000
#define SOON_MS 8000u

static void any_arguments(attacker *self, text *into) {
  static const char *const calls[] = {
      "\"say\",\"arguments\":{\"text\":\"hello\"}",
      "\"say\",\"arguments\":{\"text\":\"-n\"}",
      "\"say\",\"arguments\":{\"text\":\"$(id) `id` \\u0000\"}",
      "\"say\",\"arguments\":{}",
      "\"wait\",\"arguments\":{\"ms\":1}",
      "\"wait\",\"arguments\":{\"ms\":3}",
      "\"wait\",\"arguments\":{\"ms\":9}",
      "\"leaves\"",
      "\"floods\"",
      "\"reads\",\"arguments\":{\"text\":\"abc\"}",
      "\"fails\"",
      "\"stubborn\"",
      "\"matches\",\"arguments\":{\"text\":\"abc1\"}",
      "\"rows\",\"arguments\":{\"count\":5}",
      "\"rows\",\"arguments\":{\"count\":100000}",
      "\"like\",\"arguments\":{\"text\":\"abc\",\"pattern\":\"%b%\"}",
      "\"nosuch\"",
  };
  text_printf(into, "%s", CHANCE_OF(&self->luck, calls));
}

static void call(attacker *self, text *into, const char *id) {
  text_printf(into,
              "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{\"name\":", id);
  any_arguments(self, into);
  if (chance_one_in(&self->luck, 2)) text_printf(into, ",\"_meta\":{\"progressToken\":%s}", id);
  text_printf(into, "}}\n");
}

/* ----------------------------------------------------------------------- on one line */

static bool hear_line(wire *line, ledger *asked) {
  text message = {.data = NULL};
  bool came = wire_line(line, &message);
  if (came) ledger_hear(asked, message.data, message.len);
  text_free(&message);
  return came;
}

static void ask_some(attacker *self, wire *line, ledger *asked) {
  text bytes = {.data = NULL};
  for (unsigned i = chance_below(&self->luck, 6) + 1; i; i--) {
    const char *id = ledger_new_id(asked, true);
    ledger_ask(asked, id);
    call(self, &bytes, id);
    if (!chance_one_in(&self->luck, 4)) continue;
    ledger_excuse(asked, id);
    text_printf(&bytes,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                "\"requestId\":%s}}\n",
                id);
  }
  wire_send(line, bytes.data, bytes.len);
  text_free(&bytes);
}

static void attack_by_line(attacker *self) {
  ledger asked = {.owner = self};
  wire line = chance_one_in(&self->luck, 2) ? wire_tcp(self, self->server->tcp)
                                            : wire_unix(self, self->server->unix_path);
  text body = {.data = NULL};
  const char *id = ledger_new_id(&asked, true);
  mcp_hello(&body, self, id, "2025-11-25");
  text_add(&body, "\n", 1);
  ledger_ask(&asked, id);
  wire_send(&line, body.data, body.len);
  ask_some(self, &line, &asked);
  if (chance_one_in(&self->luck, 3)) {
    ledger_excuse_all(&asked);
    wire_peek(&line, chance_below(&self->luck, 30));
    wire_end(&line, chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
  } else {
    while (ledger_missing(&asked) && hear_line(&line, &asked)) continue;
    wire_end(&line, wire_any_farewell(self));
  }
  ledger_close(&asked);
  text_free(&body);
}

/* ------------------------------------------------------------------------- by HTTP */

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"

static void add_headers(text *into, const char *name) {
  text_printf(into,
              ACCEPT "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: "
                     "%.*s\r\n",
              (int)strcspn(name, "\""), name);
}

/* Who leaves has cancelled. */
static void attack_by_post(attacker *self) {
  ledger asked = {.owner = self};
  exchange reply;
  text call_text = {.data = NULL}, body = {.data = NULL};
  text headers = {.data = NULL}, request = {.data = NULL};
  const char *id = ledger_new_id(&asked, true), *message;
  any_arguments(self, &call_text);
  text_printf(&body,
              "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{" META
              ",\"name\":%s}}",
              id, call_text.data);
  add_headers(&headers, call_text.data + 1);
  http_request(&request, "POST", "/mcp", headers.data, body.data);
  wire line = wire_tcp(self, self->server->http);
  ledger_ask(&asked, id);
  wire_send(&line, request.data, request.len);
  if (chance_one_in(&self->luck, 3)) {
    ledger_excuse(&asked, id);
    wire_peek(&line, chance_below(&self->luck, 40));
  } else {
    if (!http_begin(&reply, &line)) attack_found(self, "closed instead of answering %s", id);
    while ((message = http_message(&reply))) ledger_hear(&asked, message, strlen(message));
    http_free(&reply);
  }
  wire_end(&line, chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
  ledger_close(&asked);
  text_free(&call_text);
  text_free(&body);
  text_free(&headers);
  text_free(&request);
}

void attack_programs(attacker *self) {
  if (chance_one_in(&self->luck, 12)) kill(self->server->pid, SIGHUP); /* read the file again */
  if (chance_one_in(&self->luck, 3))
    attack_by_post(self);
  else
    attack_by_line(self);
}

/* --------------------------------------------------------------------------- bombs */

static void is_answered_soon(attacker *self, const char *tool, const text *body) {
  text request = {.data = NULL}, headers = {.data = NULL};
  uint64_t begun = now_ms();
  add_headers(&headers, tool);
  http_request(&request, "POST", "/mcp", headers.data, body->data);
  int status = http_once(self, self->server->http, &request, NULL);
  if (status != 200) attack_found(self, "%s got status %d", tool, status);
  if (now_ms() - begun > SOON_MS)
    attack_found(self, "%s took %u ms", tool, (unsigned)(now_ms() - begun));
  text_free(&request);
  text_free(&headers);
}

static void repeat(text *into, const char *piece, unsigned count) {
  while (count--) text_printf(into, "%s", piece);
}

/* Each took a minute or more once, and everybody else's time with it. */
void attack_patterns(attacker *self) {
  bool like = chance_one_in(&self->luck, 2);
  text body = {.data = NULL};
  text_printf(&body,
              "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" META
              ",\"name\":\"%s\",\"arguments\":{\"text\":\"",
              like ? "like" : "matches");
  repeat(&body, "a", LONG);
  if (like) {
    text_printf(&body, "\",\"pattern\":\"%%");
    repeat(&body, "a", PATTERN);
    text_printf(&body, "b");
  }
  text_printf(&body, "\"}}}");
  is_answered_soon(self, like ? "like" : "matches", &body);
  text_free(&body);
}
