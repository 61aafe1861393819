/* reply_later.c - two methods that answer later: `wait` sets a timer, `count_primes` computes on
 * another thread. Both stop when nobody wants the answer any more. */
#include <idem/uv.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <uv.h>

/* ------------------------------------------------------------ wait {"ms"}: a timer */

typedef struct waiter {
  uv_timer_t timer;
  idem_request *request;
} waiter;

static void on_closed(uv_handle_t *handle) { free(handle->data); }

static void on_time(uv_timer_t *timer) {
  waiter *self = timer->data;
  idem_reply_json(self->request, "\"done\"", 6);
  uv_close((uv_handle_t *)timer, on_closed);
}

static void stop_waiting(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  waiter *self = user;
  idem_request_drop(request); /* still ours to end, though nothing will be sent */
  uv_close((uv_handle_t *)&self->timer, on_closed);
}

static void wait_a_while(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  int64_t ms;
  idem_param_fault fault;
  if (idem_param_int(params, "ms", 0, &ms, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  waiter *self = calloc(1, sizeof *self);
  if (!self) return; /* not answered and not kept: idem answers "Internal error" */
  self->request = request;
  self->timer.data = self;
  idem_request_keep(request);
  idem_request_on_cancel(request, stop_waiting, self);
  uv_timer_init(idem_conn_loop(idem_request_conn(request)), &self->timer);
  uv_timer_start(&self->timer, on_time, ms > 0 ? (uint64_t)ms : 0, 0);
}

/* --------------------------------------------- count_primes {"below"}: another thread */

typedef struct job {
  int64_t below;
  int64_t count;
  atomic_bool unwanted;
} job;

static bool is_prime(int64_t number) {
  for (int64_t divisor = 2; divisor * divisor <= number; divisor++) {
    if (number % divisor == 0) return false;
  }
  return number >= 2;
}

/* Runs on a thread of libuv's: it sees the job, never the request or the conn. */
static void count(void *data) {
  job *self = data;
  for (int64_t n = 2; n < self->below && !atomic_load(&self->unwanted); n++) {
    self->count += is_prime(n);
  }
}

/* Runs on the loop, always, whatever became of the peer: the place to reply and to free. */
static void answer(idem_request *request, void *data) {
  job *self = data;
  idem_reply_mut(request, yyjson_mut_sint(idem_request_doc(request), self->count));
  free(self);
}

static void stop_counting(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)request, (void)reason;
  job *self = user;
  atomic_store(&self->unwanted, true);
}

static void count_primes(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_param_fault fault;
  job *self = calloc(1, sizeof *self);
  if (!self) return;
  if (idem_param_int(params, "below", 0, &self->below, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    free(self);
    return;
  }
  idem_request_on_cancel(request, stop_counting, self);
  uv_loop_t *loop = idem_conn_loop(idem_request_conn(request));
  if (idem_offload(loop, request, count, answer, self) != IDEM_OK) free(self);
}

int main(void) {
  idem_router *router;
  if (idem_router_new(NULL, &router) != IDEM_OK) return 1;
  if (idem_router_method(router, "wait", wait_a_while, NULL) != IDEM_OK) return 1;
  if (idem_router_method(router, "count_primes", count_primes, NULL) != IDEM_OK) return 1;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_LSP); /* it has a way to cancel */
  policy.framing = IDEM_FRAMING_LINE;
  policy.concurrency = 0;          /* answer in any order */
  policy.limits.request_ms = 1300; /* no handler has longer */
  idem_serve_opts opts = {.router = router, .policy = &policy};
  int code = idem_run((const char *const[]){"stdio:"}, 1, &opts);
  idem_router_free(router);
  return code;
}
