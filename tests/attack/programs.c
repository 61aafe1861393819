/* programs.c - `idem serve`: programs that stay, flood or fail, called, cancelled and left by clients of
 * every transport; arguments that make patterns and queries work for ever. */
#include "attack.h"

#include <stdlib.h>
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
  const char *end;
  while (!line->got.len || !(end = memchr(line->got.data, '\n', line->got.len)))
    if (!wire_more(line)) return false;
  size_t len = (size_t)(end - line->got.data);
  line->got.data[len] = 0;
  ledger_hear(asked, line->got.data, len);
  text_cut(&line->got, len + 1);
  return true;
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

void attack_programs(attacker *self) {
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

/* --------------------------------------------------------------------------- bombs */

static void is_answered_soon(attacker *self, const char *tool, const text *body) {
  text request = {.data = NULL}, headers = {.data = NULL};
  uint64_t begun = now_ms();
  text_printf(&headers,
              ACCEPT
              "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n",
              tool);
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
  static const char meta[] =
      "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
      "\"io.modelcontextprotocol/clientCapabilities\":{}}";
  bool like = chance_one_in(&self->luck, 2);
  text body = {.data = NULL};
  text_printf(
      &body,
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{%s,\"name\":\"%s\","
      "\"arguments\":{\"text\":\"",
      meta, like ? "like" : "matches");
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
