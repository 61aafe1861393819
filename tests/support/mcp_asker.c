/* mcp_asker.c - see mcp_asker.h. */
#include "support/mcp_asker.h"

#include "mcp_client/mcp_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t now_ns(void *ctx) {
  const mcp_asker *self = ctx;
  return self->now_ms * 1000000u;
}

static void append(char *to, const char *text, size_t len) {
  size_t at = strlen(to);
  if (at + len >= ASKER_TEXT) len = ASKER_TEXT - 1 - at;
  memcpy(to + at, text, len);
  to[at + len] = 0;
}

void mcp_asker_note(mcp_asker *self, const char *format, ...) {
  char line[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  append(self->told, line, strlen(line));
  append(self->told, "\n", 1);
}

static void take(mcp_asker *self) {
  idem_chunk chunk;
  while (self->conn && idem_conn_next_chunk(self->conn, &chunk)) {
    append(self->sent, chunk.data, chunk.len);
    idem_chunk_free(&chunk);
  }
}

static void settle(mcp_asker *self) {
  take(self);
  for (int i = 0; self->conn && i < 100 && idem_conn_deadline(self->conn) <= self->now_ms; i++) {
    idem_conn_expire(self->conn);
    take(self);
  }
}

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  mcp_asker *self = user;
  (void)client;
  self->ready = true;
  self->status = status;
}

void mcp_asker_on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  mcp_asker *self = user;
  (void)client;
  yyjson_val *shown = result->items ? result->items : result->result;
  char *text = shown ? yyjson_val_write(shown, 0, NULL) : NULL;
  if (result->status == IDEM_OK)
    mcp_asker_note(self, "ok %s%s", text ? text : "-", result->is_error ? " isError" : "");
  else if (result->status == IDEM_E_REMOTE)
    mcp_asker_note(self, "remote %lld %.*s", (long long)result->code, (int)result->message_len,
                   result->message);
  else
    mcp_asker_note(self, "%s (%s)%s%.*s", idem_status_text(result->status),
                   result->fate == IDEM_MCP_NOT_SENT  ? "not sent"
                   : result->fate == IDEM_MCP_UNKNOWN ? "unknown"
                                                      : "answered",
                   result->message_len ? " " : "", (int)result->message_len,
                   result->message ? result->message : "");
  free(text);
}

bool mcp_asker_open(mcp_asker *self, const idem_mcp_client_opts *opts) {
  idem_mcp_client_opts own = opts ? *opts : (idem_mcp_client_opts){0};
  self->now_ms = 1000;
  own.alloc = &self->fault.alloc;
  own.user = self;
  if (idem_mcp_client_new(&own, &self->client) != IDEM_OK) return false;
  if (self->link) idem__mcp_client_set_link(self->client, self->link, self);
  idem_conn_opts conn = {.now_ns = now_ns, .clock_ctx = self, .alloc = &self->fault.alloc};
  if (idem_mcp_client_open(self->client, &conn, on_ready, self, &self->conn) != IDEM_OK)
    return false;
  settle(self);
  return true;
}

void mcp_asker_close(mcp_asker *self) {
  idem_mcp_client_free(self->client);
  idem_conn_free(self->conn);
  self->client = NULL;
  self->conn = NULL;
}

static const char *look(char *text, char *shown) {
  memcpy(shown, text, strlen(text) + 1);
  text[0] = 0;
  return shown;
}

const char *mcp_asker_sent(mcp_asker *self) {
  static char shown[ASKER_TEXT];
  settle(self);
  return look(self->sent, shown);
}

const char *mcp_asker_told(mcp_asker *self) {
  static char shown[ASKER_TEXT];
  settle(self);
  return look(self->told, shown);
}

void mcp_asker_hear(mcp_asker *self, const char *line) {
  if (!self->conn) return;
  if (idem_conn_feed(self->conn, line, strlen(line)) == IDEM_OK)
    idem_conn_feed(self->conn, "\n", 1);
  settle(self);
}

void mcp_asker_wait(mcp_asker *self, uint64_t ms) {
  self->now_ms += ms;
  settle(self);
}

void mcp_asker_be_modern(mcp_asker *self) {
  mcp_asker_hear(self, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"complete\","
                       "\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}},"
                       "\"ttlMs\":0,\"cacheScope\":\"public\"}}");
  mcp_asker_sent(self);
}

void mcp_asker_be_legacy(mcp_asker *self, const char *revision) {
  char line[512];
  mcp_asker_hear(self,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no\"}}");
  snprintf(
      line, sizeof line,
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"protocolVersion\":\"%s\",\"capabilities\":{},"
      "\"serverInfo\":{\"name\":\"old\",\"version\":\"1\"}}}",
      revision);
  mcp_asker_hear(self, line);
  mcp_asker_sent(self);
}
