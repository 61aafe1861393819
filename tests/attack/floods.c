/* floods.c - too much of one thing: fragments, calls whose askers are gone, connections that say
 * nothing, messages past the rate. Each has its bound, whoever else is served meanwhile. */
#include "web_socket.h"

#include "support/ws_frame.h"

#include <stdlib.h>
#include <string.h>

#define FRAGMENTS 1000000u
#define FRAGMENTS_KB (96 * 1024)
#define ABANDONED 4000u
#define IN_FLIGHT_MAX 3400 /* of three sessions at most, 1,024 each */
#define SILENT 80u
#define RATE 40u

/* --------------------------------------------------------------------------- fragments */

/* A message of a million pieces costs its bytes, not its pieces; or is refused. */
void attack_fragments(attacker *self) {
  wire line = wire_tcp(self, self->server->http);
  text bytes = {.data = NULL};
  long before = process_memory_kb(self->server->pid), most = before;
  if (!socket_open(&line, self->server->target == REFERENCE ? "/" : "/mcp"))
    attack_found(self, "no upgrade");
  socket_frame(&bytes, TEXT, "[", 1);
  wire_send_whole(&line, bytes.data, bytes.len);
  bytes.len = 0;
  for (unsigned i = 0; i < 1000; i++) socket_frame(&bytes, 0, " ", 1);
  for (unsigned i = 0; i < FRAGMENTS / 1000; i++) {
    if (!wire_send_whole(&line, bytes.data, bytes.len)) break;
    long now = process_memory_kb(self->server->pid);
    if (now > most) most = now;
  }
  if (most - before > FRAGMENTS_KB && !thread_sanitizer)
    attack_found(self, "a message in pieces of one byte took %ld KiB", most - before);
  wire_end(&line, chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
  text_free(&bytes);
}

/* ---------------------------------------------------------------------------- abandoned */

static void hello(attacker *self, char *session) {
  text body = {.data = NULL}, request = {.data = NULL};
  wire line = wire_tcp(self, self->server->http);
  exchange reply;
  text_printf(&body, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                     "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"sampling\":{}},"
                     "\"clientInfo\":{\"name\":\"attack\",\"version\":\"1\"}}}");
  http_request(&request, "POST", "/mcp", "", body.data);
  wire_send_whole(&line, request.data, request.len);
  if (!http_begin(&reply, &line) || !reply.session[0]) attack_found(self, "no session");
  snprintf(session, SESSION_MAX, "%s", reply.session);
  http_free(&reply);
  wire_end(&line, CLOSE_IT);
  text_free(&body);
  text_free(&request);
}

/* Calls that wait for an answer nobody can give: their number has a bound, and none outlives the
 * session. */
void attack_abandoned(attacker *self) {
  char session[SESSION_MAX], headers[SESSION_MAX + 96];
  measure now;
  hello(self, session);
  snprintf(headers, sizeof headers,
           "Accept: application/json, text/event-stream\r\nMcp-Session-Id: %s\r\n", session);
  for (unsigned i = 0; i < ABANDONED; i++) {
    char body[160];
    text request = {.data = NULL};
    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":"
             "\"test_sampling\",\"arguments\":{\"prompt\":\"x\"}}}",
             i + 1);
    http_request(&request, "POST", "/mcp", headers, body);
    wire line = wire_tcp(self, self->server->http);
    wire_send_whole(&line, request.data, request.len);
    if (i % 16 == 0) wire_more(&line);
    wire_end(&line, i % 16 == 0 ? RESET_IT : CLOSE_IT);
    text_free(&request);
  }
  if (server_measure(self->server, self->shared, &now) && now.in_flight > IN_FLIGHT_MAX)
    attack_found(self, "%ld requests in flight that nobody listens to", now.in_flight);
  text request = {.data = NULL};
  http_request(&request, "DELETE", "/mcp", headers, NULL);
  http_once(self, self->server->http, &request, NULL);
  text_free(&request);
}

/* ------------------------------------------------------------------------------ silence */

/* More connections than are allowed, all silent: who speaks is served all the same, and soon. */
void attack_silence(attacker *self) {
  wire lines[SILENT];
  text request = {.data = NULL};
  for (unsigned i = 0; i < SILENT; i++) {
    lines[i] = wire_tcp(self, self->server->http);
    if (chance_one_in(&self->luck, 4)) wire_send(&lines[i], "POST / HT", 9);
  }
  http_request(&request, "GET", "/healthz", "Connection: close\r\n", NULL);
  uint64_t until = now_ms() + 20000;
  for (;;) {
    wire line = wire_tcp(self, self->server->http);
    exchange reply = {.status = 0};
    if (wire_send_whole(&line, request.data, request.len) && http_begin(&reply, &line))
      http_free(&reply);
    wire_end(&line, CLOSE_IT);
    if (reply.status == 200) break;
    if (now_ms() > until) attack_found(self, "silent connections lock out who speaks");
    wire_peek(&lines[0], 100);
  }
  for (unsigned i = 0; i < SILENT; i++)
    wire_end(&lines[i], chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
  text_free(&request);
}

/* --------------------------------------------------------------------------------- rate */

static bool open_sse(attacker *self, wire *line, exchange *reply, char *path) {
  text request = {.data = NULL};
  *line = wire_tcp(self, self->server->http);
  http_request(&request, "GET", "/sse", "Accept: text/event-stream\r\n", NULL);
  wire_send_whole(line, request.data, request.len);
  text_free(&request);
  const char *message = NULL;
  if (http_begin(reply, line) && reply->status == 200) message = http_message(reply);
  if (message) snprintf(path, SESSION_MAX, "%s", message);
  return message != NULL;
}

/* Where there is no room for all, a connection may have to give way before it has said anything. */
static void post(attacker *self, const char *path, const char *body) {
  text request = {.data = NULL};
  exchange reply;
  wire line = wire_tcp(self, self->server->http);
  http_request(&request, "POST", path, "", body);
  if (wire_send_whole(&line, request.data, request.len) && http_begin(&reply, &line))
    http_free(&reply);
  wire_end(&line, CLOSE_IT);
  text_free(&request);
}

/* However messages are packed, a client has as many as the rate says. */
void attack_rate(attacker *self) {
  char path[SESSION_MAX];
  wire line;
  exchange reply = {.status = 0};
  text body = {.data = NULL};
  if (open_sse(self, &line, &reply, path)) {
    mcp_hello(&body, self, "\"hello\"", "2025-03-26");
    post(self, path, body.data);
    body.len = 0;
    text_printf(&body, "[");
    for (unsigned i = 0; i < 4 * RATE; i++)
      text_printf(&body, "%s{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"ping\"}", i ? "," : "", i);
    text_printf(&body, "]");
    post(self, path, body.data);
    wire_peek(&line, 300);
    unsigned served = 0;
    for (const char *at = line.got.data; at && (at = strstr(at, "\"result\"")); at++) served++;
    if (served > RATE + 5) attack_found(self, "a batch of %u was served past the rate", served);
  }
  http_free(&reply);
  wire_end(&line, CLOSE_IT);
  text_free(&body);
}
