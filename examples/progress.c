/* progress.c - a tool that takes its time: it tells how far it is, and stops when nobody wants the
 * answer any more. A peer that knows tasks may have it as a task and come back for the result. */
#include <idem/uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

typedef struct countdown {
  uv_timer_t timer;
  idem_request *request;
  int64_t from;
  int64_t done;
} countdown;

static void on_closed(uv_handle_t *handle) { free(handle->data); }

static void tell(const countdown *self) {
  char line[64];
  snprintf(line, sizeof line, "%lld to go", (long long)(self->from - self->done));
  idem_progress(self->request, (double)self->done, (double)self->from, line);
  idem_task_status(self->request, line);
}

static void on_tick(uv_timer_t *timer) {
  countdown *self = timer->data;
  self->done++;
  tell(self);
  if (self->done < self->from) return;
  idem_tool_text(self->request, "Lift-off!", 9);
  uv_close((uv_handle_t *)timer, on_closed);
}

static void stop_counting(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  countdown *self = user;
  idem_request_drop(request); /* still ours to end, though nothing will be sent */
  uv_close((uv_handle_t *)&self->timer, on_closed);
}

static void count_down(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  int64_t from, step_ms;
  idem_param_fault fault;
  if (idem_param_int(arguments, "from", 0, &from, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  if (idem_param_int(arguments, "step_ms", 1, &step_ms, &fault) != IDEM_OK) step_ms = 100;
  countdown *self = calloc(1, sizeof *self);
  if (!self) return; /* not answered and not kept: idem answers "Internal error" */
  *self = (countdown){.timer.data = self, .request = request, .from = from};
  idem_request_keep(request);
  idem_request_on_cancel(request, stop_counting, self);
  uv_timer_init(idem_request_loop(request), &self->timer);
  uv_timer_start(&self->timer, on_tick, (uint64_t)step_ms, (uint64_t)step_ms);
}

static const idem_tool tool = {
    .name = "count_down",
    .description = "Counts down to zero, one step at a time.",
    .input_schema = "{\"type\":\"object\",\"required\":[\"from\"],\"properties\":{"
                    "\"from\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000},"
                    "\"step_ms\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":60000}}}",
    .task = IDEM_TASK_OPTIONAL,
    .fn = count_down};

int main(int argc, char **argv) {
  idem_server *server;
  idem_server_opts opts = {.name = "progress", .version = "1.0.0", .task_poll_ms = 200};
  idem_server_os(&opts);
  if (idem_server_new(&opts, &server) != IDEM_OK) return 1;
  if (idem_server_add_tool(server, &tool, NULL, 0) != IDEM_OK) return 1;
  const char *url = argc > 1 ? argv[1] : "stdio:";
  int code = idem_run(&url, 1, &(idem_serve_opts){.server = server});
  idem_server_free(server);
  return code;
}
