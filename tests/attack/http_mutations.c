/* http_mutations.c - requests that are wrong in one way or in many. One whose end is certain must leave
 * its connection usable, or say that it closes; of one that is not, only a well-formed answer is owed. */
#include "attack.h"

#include <stdlib.h>
#include <string.h>

#define ACCEPT "Accept: application/json, text/event-stream\r\n"
#define UPGRADE "Connection: Upgrade\r\nUpgrade: websocket\r\n"
#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"

static bool speaks_mcp(const attacker *self) {
  return self->server->target == CONFORMANCE || self->server->target == SERVE;
}

static const char *path_of(const attacker *self) { return speaks_mcp(self) ? "/mcp" : "/"; }

/* A request that every server of ours answers with a result. */
static void good_request(attacker *self, text *into, const char *id) {
  text body = {.data = NULL};
  if (speaks_mcp(self)) {
    text_printf(&body,
                "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/list\",\"params\":{" META "}}",
                id);
    http_request(into, "POST", "/mcp",
                 ACCEPT "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n",
                 body.data);
  } else {
    text_printf(&body, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"echo\",\"params\":[1]}", id);
    http_request(into, "POST", "/", ACCEPT, body.data);
  }
  text_free(&body);
}

/* ------------------------------------------------------------------- one thing is wrong */

static void odd_head(attacker *self, text *into) {
  static const char *const methods[] = {"GET",  "PUT",   "OPTIONS", "HEAD",    "DELETE",
                                        "POST", "PATCH", "TRACE",   "PROPFIND"};
  static const char *const paths[] = {"/",
                                      "/mcp",
                                      "/sse?",
                                      "/message",
                                      "/metrics",
                                      "/healthz",
                                      "//",
                                      "/%2e%2e",
                                      "/mcp?x=1#y",
                                      "*",
                                      "/message?sessionId=0",
                                      "http://localhost/mcp"};
  static const char *const lines[] = {
      "Connection: upgrade\r\nUpgrade: websocket\r\n",
      (UPGRADE "Sec-WebSocket-Version: 12\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
      (UPGRADE "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n"),
      "Connection: Upgrade, keep-alive\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
      (UPGRADE "Sec-WebSocket-Version: 13\r\nOrigin: http://evil.example\r\n"),
      "Origin: null\r\n",
      "Origin: http://evil.example\r\n",
      "Authorization: Bearer x\r\n",
      "Accept: text/html\r\n",
      "Accept: application/json;q=0\r\n",
      "Expect: 100-continue\r\n",
      "Expect: 200-ok\r\n",
      "Cookie: a=b; c=\xff\r\n",
      "Mcp-Session-Id: nobody\r\n",
      "Mcp-Session-Id: \r\n",
      "MCP-Protocol-Version: 1900-01-01\r\n",
      "Mcp-Method: ping\r\nMcp-Name: =?base64?!!?=\r\n",
      "Last-Event-ID: 9-99999999999999999999\r\n",
      "Last-Event-ID: -1-+1\r\n",
      "X-Forwarded-For: 1.2.3.4\r\nForwarded: for=\"[::1]\"\r\n",
      "Accept-Encoding: gzip\r\nTE: trailers\r\n",
      "Range: bytes=0-1\r\nIf-None-Match: *\r\n",
  };
  const char *method = CHANCE_OF(&self->luck, methods), *path = CHANCE_OF(&self->luck, paths);
  text headers = {.data = NULL};
  text_printf(&headers, "%s", ACCEPT);
  for (unsigned i = chance_below(&self->luck, 3); i < 3; i++)
    text_printf(&headers, "%s", CHANCE_OF(&self->luck, lines));
  bool body = strcmp(method, "POST") == 0 || chance_one_in(&self->luck, 4);
  /* A stream that never ends is no answer to wait for. */
  if (strcmp(method, "GET") == 0 && strncmp(path, "/sse", 4) == 0) path = "/ssf";
  http_request(into, method, path, headers.data,
               body ? "{\"jsonrpc\":\"2.0\",\"id\":\"m-1\"}" : NULL);
  text_free(&headers);
}

/* `sessions`: it may begin one, whose id is then to be read. */
static void odd_body(attacker *self, text *into, bool sessions) {
  static const char *const bodies[] = {
      "{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"method\":\"echo\",\"params\":{\"a\":[1,2,{\"b\":null}]"
      "}}",
      "{\"jsonrpc\":\"2.0\",\"id\":\"m-2\",\"method\":\"tools/"
      "call\",\"params\":{\"name\":\"greet\","
      "\"arguments\":{\"name\":\"x\"}," META "}}",
      "[{\"jsonrpc\":\"2.0\",\"id\":\"m-3\",\"method\":\"sum\",\"params\":[1,2]},{\"jsonrpc\":"
      "\"2.0\",\"method\":\"update\"},{\"jsonrpc\":\"2.0\",\"id\":\"m-4\",\"method\":\"fail\"}]",
      "{\"jsonrpc\":\"2.0\",\"method\":\"update\",\"params\":[1,2,3]}",
      "{\"jsonrpc\":\"2.0\",\"id\":\"m-6\",\"result\":{}}",
      "{\"jsonrpc\":\"2.0\",\"id\":\"m-7\",\"method\":\"server/discover\",\"params\":{" META "}}",
      "{\"jsonrpc\":\"2.0\",\"id\":\"m-5\",\"method\":\"initialize\",\"params\":{"
      "\"protocolVersion\":"
      "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"m\",\"version\":\"1\"}}}"};
  text body = {.data = NULL};
  text_printf(&body, "%s", bodies[chance_below(&self->luck, COUNT(bodies) - !sessions)]);
  text_mutate(&body, &self->luck, true);
  for (size_t i = 0; i < body.len; i++)
    if (!body.data[i]) body.data[i] = '0'; /* the length is counted to the end of the string */
  http_request(into, "POST", path_of(self), ACCEPT, body.data);
  text_free(&body);
}

/* True: the connection goes on. */
static bool take_refusal(attacker *self, wire *line, ledger *asked) {
  exchange reply;
  if (!http_begin(&reply, line)) return false;
  if (reply.status == 101) attack_found(self, "an upgrade that was refused elsewhere");
  if (reply.session[0]) {
    unsigned at = self->shared->session_count++;
    if (at < SESSIONS_MAX) snprintf(self->shared->sessions[at], SESSION_MAX, "%s", reply.session);
  }
  const char *message;
  asked->foreign = true;
  while ((message = http_message(&reply)))
    if (message[0] == '{' && reply.status != 200) ledger_hear(asked, message, strlen(message));
  bool closing = reply.closing;
  http_free(&reply);
  return !closing;
}

static bool take_result(attacker *self, wire *line, ledger *asked, const char *id) {
  exchange reply;
  if (!http_begin(&reply, line)) attack_found(self, "closed instead of answering id %s", id);
  const char *message = http_message(&reply);
  asked->foreign = false;
  if (reply.status != 200)
    attack_found(self, "status %d for a good request: %s", reply.status,
                 message ? message : "(no body)");
  if (message) ledger_hear(asked, message, strlen(message));
  if (!ledger_answered(asked, id)) attack_found(self, "no answer to id %s", id);
  http_finish(&reply);
  bool closing = reply.closing;
  http_free(&reply);
  return !closing;
}

/* HEAD has a length and no body. */
static bool is_head(const text *request) { return strncmp(request->data, "HEAD ", 5) == 0; }

void attack_http(attacker *self) {
  ledger asked = {.owner = self};
  wire line = wire_tcp(self, self->server->http);
  for (unsigned i = chance_below(&self->luck, 6) + 1; i; i--) {
    text odd = {.data = NULL}, good = {.data = NULL};
    if (chance_one_in(&self->luck, 2))
      odd_head(self, &odd);
    else
      odd_body(self, &odd, true);
    const char *id = ledger_new_id(&asked, speaks_mcp(self));
    good_request(self, &good, id);
    bool head = is_head(&odd);
    bool alive = wire_send(&line, odd.data, odd.len) && !head && take_refusal(self, &line, &asked);
    if (alive) {
      ledger_ask(&asked, id);
      alive = wire_send(&line, good.data, good.len) && take_result(self, &line, &asked, id);
    } else {
      ledger_excuse(&asked, id);
    }
    text_free(&odd);
    text_free(&good);
    if (alive) continue;
    wire_end(&line, CLOSE_IT);
    line = wire_tcp(self, self->server->http);
  }
  wire_end(&line, wire_any_farewell(self));
  ledger_close(&asked);
}

/* ------------------------------------------------------------------ anything is wrong */

static void answers_are_whole(wire *line) {
  exchange reply;
  ledger nobody = {.owner = line->owner, .foreign = true};
  while (http_begin(&reply, line)) {
    const char *message;
    if (reply.status == 101 || reply.events) { /* frames, or a stream that may never end */
      http_free(&reply);
      break;
    }
    while ((message = http_message(&reply)))
      if (strncmp(message, "{\"jsonrpc\"", 10) == 0) ledger_hear(&nobody, message, strlen(message));
    http_free(&reply);
  }
}

void attack_http_wild(attacker *self) {
  for (unsigned i = chance_below(&self->luck, 4) + 1; i; i--) {
    text request = {.data = NULL};
    wire line = wire_tcp(self, self->server->http);
    for (unsigned j = chance_below(&self->luck, 3) + 1; j; j--) {
      switch (chance_below(&self->luck, 3)) {
      case 0: good_request(self, &request, "\"m-8\""); break;
      case 1: odd_head(self, &request); break;
      default: odd_body(self, &request, false);
      }
    }
    text_mutate(&request, &self->luck, false);
    bool head = strstr(request.data, "HEAD ") != NULL;
    wire_send(&line, request.data, request.len);
    if (head || chance_one_in(&self->luck, 3)) {
      wire_end(&line, chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
    } else {
      wire_peek(&line, 5);
      wire_finish(&line); /* a server that waits for the rest need not */
      if (chance_one_in(&self->luck, 2)) answers_are_whole(&line);
      wire_end(&line, RESET_IT);
    }
    text_free(&request);
  }
}

/* ------------------------------------------------------------------------ who is asking */

void attack_origins(attacker *self) {
  static const char *const foreign[] = {"null",
                                        "javascript://localhost",
                                        "http://evil.example",
                                        "http://localhost.evil.example",
                                        "file://localhost",
                                        "http://localhost@evil.example",
                                        "data://127.0.0.1",
                                        "ftp://localhost",
                                        "http://127.0.0.1.evil.example",
                                        "http://[::1].evil.example",
                                        "//localhost",
                                        "localhost:x"};
  const char *origin = CHANCE_OF(&self->luck, foreign);
  text request = {.data = NULL}, headers = {.data = NULL};
  text_printf(&headers, "Origin: %s\r\n" ACCEPT, origin);
  http_request(&request, "POST", path_of(self), headers.data,
               "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
  int status = http_once(self, self->server->http, &request, NULL);
  if (status != 403 && status != 400) attack_found(self, "Origin %s got %d", origin, status);
  text_free(&request);
  text_free(&headers);
}
