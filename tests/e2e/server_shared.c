/* server_shared.c - a node of several that share a store: server_shared URL STORE [WORKERS]. Its tool `wait` takes the time it is told and
 * may be had as a task; `change` tells that a resource was updated. */
#include <idem/uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

typedef struct waiting {
  uv_timer_t timer;
  idem_request *request;
} waiting;

static const char uri[] = "test:thing";

static void on_closed(uv_handle_t *handle) { free(handle->data); }

static void on_time(uv_timer_t *timer) {
  waiting *self = timer->data;
  idem_tool_text(self->request, "waited", 6);
  uv_close((uv_handle_t *)timer, on_closed);
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  waiting *self = user;
  idem_request_drop(request);
  uv_close((uv_handle_t *)&self->timer, on_closed);
}

static void wait_a_while(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  int64_t ms;
  idem_param_fault fault;
  if (idem_param_int(arguments, "ms", 0, &ms, &fault) != IDEM_OK || ms < 0) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  waiting *self = calloc(1, sizeof *self);
  if (!self) return;
  *self = (waiting){.timer.data = self, .request = request};
  fprintf(stderr, "waiting\n");
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, self);
  uv_timer_init(idem_request_loop(request), &self->timer);
  uv_timer_start(&self->timer, on_time, (uint64_t)ms, 0);
}

static void change(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  idem_server_resource_updated(user, uri);
  idem_tool_text(request, "told", 4);
}

static void read_thing(idem_request *request, const char *which, void *user) {
  (void)which, (void)user;
  idem_resource_text(request, "text/plain", "as it is", 8);
}

static void on_listening(const char *url, void *user) {
  (void)user;
  fprintf(stderr, "listening on %s\n", url);
}

int main(int argc, char **argv) {
  idem_server *server;
  idem_server_opts opts = {.name = "shared", .version = "1", .task_poll_ms = 50};
  idem_server_os(&opts);
  if (argc < 3 || argc > 4 || idem_server_new(&opts, &server) != IDEM_OK) return 2;
  static const char schema[] =
      "{\"type\":\"object\",\"properties\":{\"ms\":{\"type\":\"integer\"}}}";
  const idem_tool wait = {.name = "wait",
                          .description = "Takes its time.",
                          .input_schema = schema,
                          .task = IDEM_TASK_OPTIONAL,
                          .fn = wait_a_while};
  const idem_tool tell = {.name = "change",
                          .description = "Says so.",
                          .input_schema = schema,
                          .fn = change,
                          .user = server};
  const idem_resource thing = {.uri = uri, .name = "thing", .fn = read_thing};
  if (idem_server_add_tool(server, &wait, NULL, 0) != IDEM_OK ||
      idem_server_add_tool(server, &tell, NULL, 0) != IDEM_OK ||
      idem_server_add_resource(server, &thing, NULL, 0) != IDEM_OK)
    return 2;
  const char *url = argv[1];
  idem_http_opts http = {.workers = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1};
  int code = idem_run(
      &url, 1,
      &(idem_serve_opts){
          .server = server, .store = argv[2], .http = &http, .on_listening = on_listening});
  idem_server_free(server);
  return code;
}
