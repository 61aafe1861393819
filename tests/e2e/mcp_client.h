/* mcp_client.h - an MCP client for a program under test, in either era, one question at a time. */
#ifndef IDEM_TESTS_MCP_CLIENT_H
#define IDEM_TESTS_MCP_CLIENT_H

#include "child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct mcp_client {
  child server;
  int in, out;
  const char *capabilities; /* of a 2026-07-28 client: a JSON object */
  unsigned id;              /* of the last request */
  bool modern;
} mcp_client;

/* Sends a request without waiting; `members` are those of params, "" for none. */
static inline void mcp_send(mcp_client *client, const char *method, const char *members) {
  size_t room = strlen(method) + strlen(members) + strlen(client->capabilities) + 400;
  char *line = malloc(room), meta[1024] = "";
  assert_non_null(line);
  if (client->modern) {
    snprintf(meta, sizeof meta,
             "%s\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
             "\"io.modelcontextprotocol/clientCapabilities\":%s}",
             *members ? "," : "", client->capabilities);
  }
  snprintf(line, room, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\",\"params\":{%s%s}}\n",
           ++client->id, method, members, meta);
  child_send(client->in, line);
  free(line);
}

/* Sends, and gives back the answer to this request, whatever came before it. */
static inline const char *mcp_ask(mcp_client *client, const char *method, const char *members) {
  char id[32];
  mcp_send(client, method, members);
  snprintf(id, sizeof id, "{\"jsonrpc\":\"2.0\",\"id\":%u,", client->id);
  return child_line_with(client->out, id);
}

static inline const char *mcp_call(mcp_client *client, const char *tool, const char *arguments) {
  size_t room = strlen(tool) + strlen(arguments) + 64;
  char *members = malloc(room);
  assert_non_null(members);
  snprintf(members, room, "\"name\":\"%s\",\"arguments\":%s", tool, arguments);
  const char *answer = mcp_ask(client, "tools/call", members);
  free(members);
  return answer;
}

/* `date` below 2026-07-28: shakes hands. */
static inline void mcp_hello(mcp_client *client, const char *date, const char *capabilities) {
  char members[512];
  client->modern = strcmp(date, "2026-07-28") >= 0;
  client->capabilities = capabilities;
  if (client->modern) return;
  snprintf(members, sizeof members,
           "\"protocolVersion\":\"%s\",\"capabilities\":%s,\"clientInfo\":{\"name\":\"test\","
           "\"version\":\"1\"}",
           date, capabilities);
  assert_non_null(strstr(mcp_ask(client, "initialize", members), date));
  child_send(client->in, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
}

static inline mcp_client mcp_start(const char *const *argv, const char *date,
                                   const char *capabilities) {
  mcp_client client = {.server = child_start(argv)};
  client.in = client.server.in;
  client.out = client.server.out;
  mcp_hello(&client, date, capabilities);
  return client;
}

#define mcp_expect(answer, part)                                                                   \
  do {                                                                                             \
    const char *got_ = (answer);                                                                   \
    if (!strstr(got_, part)) fail_msg("no %s in %s", part, got_);                                  \
  } while (0)

#endif
