/* mcp_call.c - a typed tools/call to its callback against a peer in memory, beside the same round with idem_call: what
 * the MCP client costs. `mcp_call [ROUNDS]` prints nanoseconds a call for one and for 1,000 in flight, and the ratio;
 * `mcp_call ROUNDS typed|plain` runs one of them alone, for counting instructions. */
#include "clock.h"

#include <idem/idem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t ended;

typedef struct pair {
  idem_conn *asker, *server;
  idem_mcp_client *client;
  idem_router *router;
} pair;

/* The peer: the same answer for whoever asks. */
static void on_call(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  static const char result[] =
      "{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"hello\"}]}";
  idem_reply_json(request, result, sizeof result - 1);
}

static void on_discover(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  static const char result[] = "{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{}}";
  idem_reply_json(request, result, sizeof result - 1);
}

static bool move(idem_conn *from, idem_conn *to) {
  idem_chunk chunk;
  bool moved = false;
  while (idem_conn_next_chunk(from, &chunk)) {
    idem_conn_feed(to, chunk.data, chunk.len);
    idem_chunk_free(&chunk);
    moved = true;
  }
  return moved;
}

static void pump(pair *self) {
  while (move(self->asker, self->server) || move(self->server, self->asker)) continue;
}

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  (void)client, (void)user;
  if (status != IDEM_OK) exit(1);
}

static void on_typed(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)client, (void)user;
  ended += result->status == IDEM_OK && result->content;
}

static void on_plain(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn, (void)user;
  ended += response->status == IDEM_OK && yyjson_obj_get(response->result, "content");
}

static void open_pair(pair *self, bool typed) {
  idem_conn_opts opts = {.now_ns = NULL};
  if (idem_router_new(&(idem_router_opts){0}, &self->router) != IDEM_OK ||
      idem_router_method(self->router, "tools/call", on_call, NULL) != IDEM_OK ||
      idem_router_method(self->router, "server/discover", on_discover, NULL) != IDEM_OK)
    exit(1);
  opts.router = self->router;
  if (idem_conn_new(&opts, &self->server) != IDEM_OK) exit(1);
  idem_conn_opts asking = {.now_ns = NULL};
  if (!typed) {
    if (idem_conn_new(&asking, &self->asker) != IDEM_OK) exit(1);
    return;
  }
  if (idem_mcp_client_new(NULL, &self->client) != IDEM_OK ||
      idem_mcp_client_open(self->client, &asking, on_ready, NULL, &self->asker) != IDEM_OK)
    exit(1);
  pump(self);
}

static void close_pair(pair *self) {
  idem_mcp_client_free(self->client);
  idem_conn_free(self->asker);
  idem_conn_free(self->server);
  idem_router_free(self->router);
}

/* What the plain round sends is what the typed one sends, byte for byte but for the number of the token. */
static const char plain_params[] =
    "{\"name\":\"hello\",\"arguments\":{\"who\":\"world\",\"count\":3},\"_meta\":{"
    "\"progressToken\":1048576,"
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/"
    "clientCapabilities\":{},"
    "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"idem\",\"version\":\"" IDEM_VERSION "\"}}}";

static void ask(pair *self, const yyjson_mut_val *arguments, const yyjson_mut_val *params) {
  idem_status status =
      self->client
          ? idem_mcp_call_tool(self->client, "hello", arguments, NULL, on_typed, NULL, NULL)
          : idem_call(self->asker, "tools/call", params, NULL, on_plain, NULL, NULL);
  if (status != IDEM_OK) exit(1);
}

/* Nanoseconds a call, `flight` of them at once. */
static double run(bool typed, size_t rounds, size_t flight) {
  pair self = {0};
  open_pair(&self, typed);
  yyjson_doc *read = yyjson_read(plain_params, sizeof plain_params - 1, 0);
  yyjson_mut_doc *doc = yyjson_doc_mut_copy(read, NULL);
  yyjson_mut_val *params = yyjson_mut_doc_get_root(doc);
  yyjson_mut_val *arguments = yyjson_mut_obj_get(params, "arguments");
  ended = 0;
  double start = now_ns();
  for (size_t i = 0; i < rounds; i += flight) {
    for (size_t k = 0; k < flight; k++) ask(&self, arguments, params);
    pump(&self);
  }
  double each = (now_ns() - start) / (double)ended;
  if (ended < rounds) exit(1);
  yyjson_mut_doc_free(doc);
  yyjson_doc_free(read);
  close_pair(&self);
  return each;
}

static double best(bool typed, size_t rounds, size_t flight) {
  double least = 1e30;
  for (int i = 0; i < 5; i++) {
    double each = run(typed, rounds, flight);
    if (each < least) least = each;
  }
  return least;
}

int main(int argc, char **argv) {
  size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 200000;
  if (argc > 2) {
    run(strcmp(argv[2], "typed") == 0, rounds, 1);
    return 0;
  }
  for (size_t flight = 1; flight <= 1000; flight *= 1000) {
    double plain = best(false, rounds, flight), typed = best(true, rounds, flight);
    printf("%4zu in flight: idem_call %.0f ns, idem_mcp_call_tool %.0f ns, %.2f times\n", flight,
           plain, typed, typed / plain);
  }
  return 0;
}
