/* node.c - see node.h. */
#include "node.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ARGUMENTS 24

node node_of(child server) {
  node self = {.server = server};
  char url[128];
  child_listening(&self.server, url, sizeof url);
  assert_int_equal(sscanf(url, "http://%63[^/]", self.host), 1);
  return self;
}

node node_serve(const char *file, const char *store, ...) {
  static const char idem[] = IDEM_BIN_DIR "/idem";
  const char *argv[ARGUMENTS] = {idem, "serve", file, "--http", "127.0.0.1:0", "--store", store};
  size_t count = store ? 7 : 5;
  va_list more;
  va_start(more, store);
  for (const char *next; (next = va_arg(more, const char *)); argv[count++] = next)
    assert_true(count < ARGUMENTS - 1);
  va_end(more);
  return node_of(child_start(argv));
}

void node_stop(node *self, int signal) {
  kill(self->server.pid, signal);
  assert_int_equal(child_end(&self->server), signal == SIGKILL ? -SIGKILL : 0);
}

int node_send(const node *self, const char *verb, const char *headers, const char *body) {
  char url[80], head[1024];
  snprintf(url, sizeof url, "tcp://%s", self->host);
  int fd = child_connect(url);
  snprintf(head, sizeof head,
           "%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\n%sContent-Length: %zu\r\n\r\n",
           verb, self->host, headers, strlen(body));
  child_send(fd, head);
  child_send(fd, body);
  return fd;
}

int node_call(const node *self, const char *tool, const char *headers, const char *meta) {
  char body[640], lines[512];
  snprintf(lines, sizeof lines,
           "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n%s", tool,
           headers);
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
           "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
           "\"io.modelcontextprotocol/clientCapabilities\":{}%s}}}",
           tool, meta);
  return node_send(self, "POST /mcp", lines, body);
}

const char *node_rest(int fd) {
  const char *answer = child_rest(fd);
  close(fd);
  return answer;
}

const char *node_post(const node *self, const char *session, const char *body) {
  char headers[128] = "";
  if (session) snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\n", session);
  return node_rest(node_send(self, "POST /mcp", headers, body));
}

void node_open_session(const node *self, const char *revision, const char *capabilities,
                       char session[80]) {
  char body[512];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
           "\"protocolVersion\":\"%s\",\"capabilities\":%s,"
           "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}",
           revision, capabilities);
  const char *answer = node_post(self, NULL, body);
  const char *header = strcasestr(answer, "mcp-session-id:");
  assert_non_null(header);
  assert_int_equal(sscanf(header + strlen("mcp-session-id:"), " %79[!-~]", session), 1);
  answer =
      node_post(self, session, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
  assert_non_null(strstr(answer, " 202 "));
}

int node_listen(const node *self, const char *session, const char *last_event) {
  char headers[256];
  snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\n%s%s%s", session,
           last_event ? "Last-Event-ID: " : "", last_event ? last_event : "",
           last_event ? "\r\n" : "");
  int fd = node_send(self, "GET /mcp", headers, "");
  child_line_with(fd, "text/event-stream");
  return fd;
}
