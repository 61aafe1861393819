/* fuzz_mcp_client.c - an MCP client of either era with calls of every kind, fed with what a hostile server might say. Each
 * call ends exactly once, questions are answered or outlive everything, and nothing is left behind. */
#include <idem/mcp_client.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct world {
  idem_mcp_client *client;
  idem_conn *conn;
  uint64_t now_ms;
  size_t started, ended, readies;
  idem_mcp_question *kept[8];
  size_t kept_count;
  unsigned turn;
} world;

static uint64_t now_ns(void *ctx) { return ((const world *)ctx)->now_ms * 1000000u; }

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  world *self = user;
  (void)client, (void)status;
  self->readies++;
}

static void on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  world *self = user;
  (void)client;
  self->ended++;
  if (result->status == IDEM_E_REMOTE && !result->message) abort();
  yyjson_val *shown = result->items ? result->items : result->result;
  if (shown) free(yyjson_val_write(shown, 0, NULL));
}

/* One is kept, one accepted, one refused, one forgotten. */
static void on_question(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  world *self = user;
  char why[64];
  (void)client;
  if (!idem_mcp_question_params(question)) abort();
  switch (self->turn++ % 4) {
  case 0:
    if (self->kept_count == sizeof self->kept / sizeof *self->kept) return;
    idem_mcp_question_keep(question);
    self->kept[self->kept_count++] = question;
    return;
  case 1:
    if (idem_mcp_accept(question, NULL, why, sizeof why) != IDEM_E_INVAL) return;
    idem_mcp_decline(question);
    return;
  case 2: idem_mcp_decline(question); return;
  default: return;
  }
}

static void drain(world *self) {
  idem_chunk chunk;
  while (idem_conn_next_chunk(self->conn, &chunk)) idem_chunk_free(&chunk);
}

static void settle(world *self) {
  for (int i = 0; i < 20 && idem_conn_deadline(self->conn) <= self->now_ms; i++) {
    if (idem_conn_expire(self->conn) != IDEM_OK) break;
    drain(self);
  }
  drain(self);
}

static void hear(world *self, const char *line) { idem_conn_feed(self->conn, line, strlen(line)); }

static void be_ready(world *self, bool modern) {
  drain(self);
  if (modern) {
    hear(self,
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"supportedVersions\":[\"2026-07-28\"]}}\n");
  } else {
    hear(self, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"\"}}\n");
    hear(self, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"protocolVersion\":\"2025-11-25\"}}\n");
  }
  drain(self);
}

static void count(world *self, idem_status status) { self->started += status == IDEM_OK; }

static void ask(world *self) {
  idem_mcp_client *client = self->client;
  idem_mcp_call_opts opts = {.idle_ms = 200, .task = true};
  count(self, idem_mcp_list(client, IDEM_MCP_TOOLS, NULL, on_result, self, NULL));
  count(self, idem_mcp_call_tool_json(client, "t", "{}", 2, &opts, on_result, self, NULL));
  count(self, idem_mcp_call_tool_json(client, "u", NULL, 0, NULL, on_result, self, NULL));
  count(self, idem_mcp_read(client, "u:x", NULL, on_result, self, NULL));
  count(self,
        idem_mcp_listen(client, &(idem_mcp_listening){.tools = true}, NULL, on_result, self, NULL));
  count(self, idem_mcp_task_wait(client, "T", NULL, on_result, self, NULL));
  count(self, idem_mcp_list_skills(client, NULL, on_result, self, NULL));
  drain(self);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  world self = {.now_ms = 1000};
  idem_mcp_client_opts opts = {.on_form = on_question,
                               .on_url = on_question,
                               .on_sampling = on_question,
                               .roots = true,
                               .tasks = true,
                               .max_items = 100,
                               .max_pages = 8,
                               .message_bytes = 1 << 20,
                               .user = &self};
  if (idem_mcp_client_new(&opts, &self.client) != IDEM_OK) return 0;
  idem_conn_opts conn = {.now_ns = now_ns, .clock_ctx = &self};
  if (idem_mcp_client_open(self.client, &conn, on_ready, &self, &self.conn) != IDEM_OK) abort();
  if (data[0] & 1) be_ready(&self, data[0] & 2);
  if (idem_mcp_client_ready(self.client)) ask(&self);
  size_t piece = data[1] ? data[1] : size;
  data += 2;
  size -= 2;
  while (size) {
    size_t len = piece < size ? piece : size;
    if (idem_conn_feed(self.conn, (const char *)data, len) != IDEM_OK) break;
    data += len;
    size -= len;
    self.now_ms += 7;
    settle(&self);
  }
  if (self.kept_count) idem_mcp_dismiss(self.kept[--self.kept_count]);
  if (piece & 1) {
    idem_conn_free(self.conn);
    idem_mcp_client_free(self.client);
  } else {
    idem_mcp_client_free(self.client);
    idem_conn_free(self.conn);
  }
  while (self.kept_count) idem_mcp_dismiss(self.kept[--self.kept_count]);
  if (self.ended != self.started || self.readies > 1) abort();
  return 0;
}
