/* fuzz_mcp_conn.c - any lines at an MCP server on a line, both eras on one
 * conn. A line that begins with a colon is something our own side does (the
 * words of the transcripts), so that what handlers keep is answered, what is
 * served changes and time passes. Whatever comes out is a message. */
#include "../tests/support/mcp_fixture.h"
#include "../tests/support/message_shape.h"
#include "mcp_server/mcp_server.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_KEPT = 16 };

typedef struct world {
  mcp_fixture fixture;
  idem__mcp_worker *server;
  idem_conn *conn;
  uint64_t now_ms;
  bool woken;
  idem_request *kept[FUZZ_KEPT];
  size_t kept_count;
} world;

static _Noreturn void fail(const char *what, const char *text, size_t len) {
  fprintf(stderr, "%s: %.*s\n", what, (int)(len < 2000 ? len : 2000), text);
  abort();
}

/* -------------------------------------------------------------------- checking
 */

/* Every result of MCP is an object, and every error has its members. */
static bool well_formed(yyjson_val *message) {
  yyjson_val *result = yyjson_obj_get(message, "result"), *error = yyjson_obj_get(message, "error");
  if (!message_is_well_formed(message)) return false;
  if (yyjson_obj_get(message, "method")) return true;
  if (!yyjson_obj_get(message, "id")) return false;
  if (result) return yyjson_is_obj(result);
  return yyjson_is_int(yyjson_obj_get(error, "code")) &&
         yyjson_is_str(yyjson_obj_get(error, "message"));
}

static void on_trace(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                     void *user) {
  (void)conn, (void)user;
  if (direction == IDEM_IN) return;
  if (memchr(message, '\n', len)) fail("a newline in a message", message, len);
  yyjson_doc *doc = yyjson_read(message, len, YYJSON_READ_BIGNUM_AS_RAW);
  if (!message_or_batch(yyjson_doc_get_root(doc), well_formed)) fail("not a message", message, len);
  yyjson_doc_free(doc);
}

/* ---------------------------------------------------------------------- acting
 */

static uint64_t now(void *ctx) { return ((world *)ctx)->now_ms * 1000000u; }

static void on_wake(idem__mcp_worker *server, void *user) {
  (void)server;
  ((world *)user)->woken = true;
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  world *w = user;
  size_t at = 0;
  while (at < w->kept_count && w->kept[at] != request) at++;
  if (at == w->kept_count || at % 2) return; /* some go on all the same */
  w->kept[at] = w->kept[--w->kept_count];
  idem_request_drop(request);
}

static void keep(idem_request *request, void *user) {
  world *w = user;
  if (w->kept_count == FUZZ_KEPT) {
    idem_request_drop(request);
    return;
  }
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, w);
  w->kept[w->kept_count++] = request;
}

static idem_request *take(world *w) { return w->kept_count ? w->kept[--w->kept_count] : NULL; }

static void act_on_request(world *w, char what) {
  static const idem_ask roots = {.key = "r", .kind = IDEM_ASK_ROOTS};
  bool stays = what == 's' || what == 'p';
  idem_request *request = stays && w->kept_count ? w->kept[0] : stays ? NULL : take(w);
  if (!request) return;
  switch (what) {
  case 't': idem_tool_text(request, "text", 4); break;
  case 'f': idem_tool_failed(request, "failed"); break;
  case 's': idem_task_status(request, "status"); break;
  case 'p': idem_progress(request, (double)w->now_ms, 0, "on"); break;
  case 'a': idem_needs_input(request, &roots, 1, "s", 1); break;
  default: idem_request_drop(request); break;
  }
}

static void act(world *w, const char *word, size_t len) {
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)(len < 63 ? len : 63), word);
  const char *rest = strchr(text, ' ');
  rest = rest ? rest + 1 : "x";
  if (strncmp(text, "add-t", 5) == 0)
    mcp_fixture_add_tool(&w->fixture, rest);
  else if (strncmp(text, "add-p", 5) == 0)
    mcp_fixture_add_prompt(&w->fixture, rest);
  else if (strncmp(text, "add-r", 5) == 0)
    mcp_fixture_add_resource(&w->fixture, rest, false);
  else if (strncmp(text, "add-", 4) == 0)
    mcp_fixture_add_resource(&w->fixture, rest, true);
  else if (strncmp(text, "remove-t", 8) == 0)
    idem_server_remove_tool(w->fixture.server, rest);
  else if (strncmp(text, "remove-", 7) == 0)
    idem_server_remove_resource(w->fixture.server, rest);
  else if (strncmp(text, "updated", 7) == 0)
    idem_server_resource_updated(w->fixture.server, rest);
  else if (strncmp(text, "end", 3) == 0)
    idem__listeners_close(w->server);
  else if (strncmp(text, "wall", 4) == 0)
    w->fixture.wall_ms += 200000;
  else if (strncmp(text, "deliver", 7) == 0)
    w->now_ms += 1000000;
  else
    act_on_request(w, text[0]);
}

static void turn(world *w) {
  idem_chunk chunk;
  if (w->woken) {
    w->woken = false;
    idem__worker_deliver(w->server);
  }
  if (idem_conn_deadline(w->conn) <= w->now_ms) idem_conn_expire(w->conn);
  while (idem_conn_next_chunk(w->conn, &chunk)) idem_chunk_free(&chunk);
}

static void play(world *w, const char *text, size_t size) {
  while (size) {
    const char *end = memchr(text, '\n', size);
    size_t len = end ? (size_t)(end - text) + 1 : size;
    if (*text == ':' && len > 2) {
      act(w, text + 2, len - 2 - (end ? 1 : 0));
    } else {
      char *copy = malloc(len);
      if (!copy) abort();
      memcpy(copy, text, len);
      idem_conn_feed(w->conn, copy, len);
      free(copy);
    }
    turn(w);
    text += len;
    size -= len;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  world w = {.now_ms = 1000};
  idem_conn_opts opts = {.now_ns = now, .clock_ctx = &w, .on_trace = on_trace, .user = &w};
  idem_server_opts server = {.page_size = 7, .max_tasks = 8, .max_subscriptions = 4};
  if (size < 1) return 0;
  if (mcp_fixture_open(&w.fixture, &server) != IDEM_OK) abort();
  w.fixture.keep = keep;
  w.fixture.user = &w;
  if (idem__worker_new(w.fixture.server, on_wake, &w, &w.server) != IDEM_OK) abort();
  if (idem__worker_accept(w.server, &opts, data[0] & 1 ? "alice" : NULL, &w.conn) != IDEM_OK)
    abort();
  play(&w, (const char *)data + 1, size - 1);
  idem_conn_free(w.conn);
  while (w.kept_count) act_on_request(&w, data[0] & 2 ? 't' : 'd');
  idem__worker_free(w.server);
  mcp_fixture_close(&w.fixture);
  return 0;
}
