/* sleep.c - a method that answers later: it keeps the request, sets a timer, and ends early when the
 * answer has lost its purpose. */
#include "reference.h"

#include <stdlib.h>
#include <uv.h>

#define LONGEST_MS INT64_C(86400000)

typedef struct sleeper {
  uv_timer_t timer;
  idem_request *request;
  const answers *how;
} sleeper;

static void on_closed(uv_handle_t *handle) { free(handle->data); }

static void on_time(uv_timer_t *timer) {
  sleeper *self = timer->data;
  self->how->json(self->request, "null", 4);
  uv_close((uv_handle_t *)timer, on_closed);
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  sleeper *self = user;
  idem_request_drop(request);
  uv_close((uv_handle_t *)&self->timer, on_closed);
}

void method_sleep(idem_request *request, yyjson_val *params, void *user) {
  int64_t ms;
  idem_param_fault fault;
  if (idem_param_int(params, "ms", 0, &ms, &fault) != IDEM_OK || ms < 0 || ms > LONGEST_MS) {
    fault.param = yyjson_is_arr(params) ? "[0]" : "ms";
    fault.expected = "integer from 0 to 86400000";
    fault.received =
        yyjson_is_arr(params) ? yyjson_arr_get(params, 0) : yyjson_obj_get(params, "ms");
    fault.accepted = NULL;
    idem_reply_invalid_params(request, &fault);
    return;
  }
  sleeper *self = calloc(1, sizeof *self);
  if (!self) return; /* answered with "Internal error" */
  self->request = request;
  self->how = user;
  self->timer.data = self;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, self);
  uv_loop_t *loop = idem_conn_loop(idem_request_conn(request));
  uv_timer_init(loop, &self->timer);
  uv_update_time(loop);
  uv_timer_start(&self->timer, on_time, (uint64_t)ms, 0);
}
