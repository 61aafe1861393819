/* fuzz_mcp_http.c - any bytes at /mcp, /sse and /message: sessions, streams and stateless
 * requests of every revision. The same answers at any split, and nothing leaked,
 * whatever is asked. */
#include "../tests/support/mcp_fixture.h"
#include "http_fuzz.h"

#include "mcp_http/mcp_http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A server, its sessions and one thread's side of them, new for each play: what
 * one play leaves behind must not change the next one's answers. */
typedef struct endpoint {
  mcp_fixture fixture;
  idem__mcp_worker *mcp;
  idem__session_table *table;
  idem__mcp_endpoint *endpoint;
  idem_http_server *server;
} endpoint;

static void on_wake(idem__mcp_worker *server, void *user) {
  (void)server;
  (void)user;
}

static uint64_t clock_ns(void *ctx) {
  (void)ctx;
  return 1000000000u;
}

static void open_endpoint(endpoint *e, bool stateless) {
  idem_server_opts server = {.page_size = 7, .max_tasks = 8};
  MUST(mcp_fixture_open(&e->fixture, &server) == IDEM_OK);
  MUST(idem__worker_new(e->fixture.server, on_wake, NULL, &e->mcp) == IDEM_OK);
  idem__session_table_opts table = {
      .server = e->fixture.server, .max_sessions = 4, .stateless_legacy = stateless};
  MUST(idem__session_table_new(&table, &e->table) == IDEM_OK);
  idem__mcp_endpoint_opts endpoint = {
      .table = e->table, .worker = e->mcp, .rpc = {.now_ns = clock_ns}};
  MUST(idem__mcp_endpoint_new(&endpoint, &e->endpoint) == IDEM_OK);
  static const idem_http_opts http = {0};
  MUST(idem__http_server_new(
           &(idem__http_server_opts){
               .http = &http, .body_bytes = 8192, .port = 80, .loopback = true},
           &e->server) == IDEM_OK);
  MUST(idem__mcp_endpoint_add(e->endpoint, e->server, "/mcp", false, false) == IDEM_OK);
  MUST(idem__mcp_endpoint_add_sse(e->endpoint, e->server, "/sse") == IDEM_OK);
}

static void close_endpoint(endpoint *e) {
  idem__http_server_free(e->server);
  idem__mcp_endpoint_free(e->endpoint);
  idem__session_table_free(e->table);
  idem__worker_free(e->mcp);
  mcp_fixture_close(&e->fixture);
}

static http_fuzz_output play(const uint8_t *data, size_t size, bool stateless, unsigned seed) {
  endpoint e = {0};
  open_endpoint(&e, stateless);
  http_fuzz_output out = http_fuzz_play(e.server, data, size, seed);
  close_endpoint(&e);
  return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  bool stateless = data[0] & 1;
  http_fuzz_output whole = play(data + 1, size - 1, stateless, 0);
  http_fuzz_output pieces = play(data + 1, size - 1, stateless, 7);
  MUST(whole.len == pieces.len && memcmp(whole.text, pieces.text, whole.len) == 0);
  free(whole.text);
  free(pieces.text);
  return 0;
}
