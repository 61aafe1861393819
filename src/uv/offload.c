/* offload.c - blocking work on libuv's threads, its answer on the loop.
 * The request stays ours to hand back: `after` runs once whatever became of the peer meanwhile. */
#include "uv/runtime.h"

typedef struct offloaded {
  uv_work_t work;
  idem_alloc alloc;
  idem_request *request;
  idem_work_fn fn;
  idem_after_fn after;
  void *job;
} offloaded;

static void on_work(uv_work_t *work) {
  const offloaded *self = work->data;
  self->fn(self->job);
}

static void on_done(uv_work_t *work, int status) {
  (void)status; /* nobody but us could cancel it, and we do not */
  offloaded self = *(const offloaded *)work->data;
  idem__free(&self.alloc, work->data);
  self.after(self.request, self.job);
}

idem_status idem_offload(uv_loop_t *loop, idem_request *request, idem_work_fn work,
                         idem_after_fn after, void *job) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  offloaded *self = idem__calloc(&alloc, sizeof *self);
  if (!self) return IDEM_E_NOMEM;
  *self = (offloaded){.alloc = alloc, .request = request, .fn = work, .after = after, .job = job};
  self->work.data = self;
  if (uv_queue_work(loop, &self->work, on_work, on_done) != 0) {
    idem__free(&alloc, self);
    return IDEM_E_SYS;
  }
  idem_request_keep(request);
  return IDEM_OK;
}
