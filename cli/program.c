/* program.c - whose turn it is. At most `concurrency` programs run; the calls that wait are taken
 * in turns from the tools that have any, so that one busy tool cannot starve the others. */
#include "program.h"

#include "edition.h"
#include "spawn.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

void program_host_init(program_host *self) {
  *self = (program_host){.concurrency = 1};
  idem__list_init(&self->ready);
  idem__list_init(&self->running);
  signal(SIGPIPE, SIG_IGN); /* a program may end before it has read its input */
  spawn_adopt_orphans();
}

void program_tool_init(program_tool *self, program_host *host, edition *owner, size_t index) {
  *self = (program_tool){.host = host,
                         .edition = owner,
                         .file = &owner->config,
                         .config = &owner->config.tools[index],
                         .bounds = &owner->bounds,
                         .index = index};
  idem__list_init(&self->ready);
  idem__list_init(&self->waiting);
}

/* ------------------------------------------------------------------------- turns */

static void wait_for_turn(call *self) {
  program_tool *tool = self->tool;
  idem__list_append(&tool->waiting, &self->link);
  tool->host->waiting_count++;
  if (idem__list_empty(&tool->ready)) idem__list_append(&tool->host->ready, &tool->ready);
}

static void leave_queue(call *self) {
  program_tool *tool = self->tool;
  idem__list_remove(&self->link);
  tool->host->waiting_count--;
  if (idem__list_empty(&tool->waiting)) idem__list_remove(&tool->ready);
}

static void take_slot(call *self) {
  program_host *host = self->tool->host;
  idem__list_append(&host->running, &self->link);
  host->running_count++;
  call_start(self);
}

static void next_turn(program_host *host) {
  if (host->turning) return; /* a program that could not be started gives its turn back at once */
  host->turning = true;
  while (host->running_count < host->concurrency && !idem__list_empty(&host->ready)) {
    program_tool *tool = IDEM__CONTAINER(host->ready.next, program_tool, ready);
    call *first = IDEM__CONTAINER(tool->waiting.next, call, link);
    idem__list_remove(&tool->ready);
    idem__list_append(&host->ready, &tool->ready);
    leave_queue(first);
    take_slot(first);
  }
  host->turning = false;
}

void program_host_limits(program_host *self, const serve_config *config) {
  self->concurrency = config->concurrency;
  self->queue = config->queue;
  next_turn(self);
}

void program_call_ended(call *self) {
  program_host *host = self->tool->host;
  idem__list_remove(&self->link);
  host->running_count--;
  next_turn(host);
}

/* ------------------------------------------------------------------------- calls */

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  call *self = user;
  (void)reason;
  self->request = NULL;
  idem_request_drop(request);
  if (self->started) {
    call_stop(self, STOP_CANCELLED);
    return;
  }
  leave_queue(self);
  call_free(self);
}

static void on_child_signal(uv_signal_t *handle, int number) {
  (void)number;
  program_reap(handle->data);
}

/* Unreferenced: with no call there is nothing to wait for. */
static bool watch_children(program_host *host, uv_loop_t *loop) {
  if (host->loop) return true;
  if (uv_signal_init(loop, &host->child_signal) != 0) return false;
  host->loop = loop;
  host->child_signal.data = host;
  uv_unref((uv_handle_t *)&host->child_signal);
  return uv_signal_start(&host->child_signal, on_child_signal, SIGCHLD) == 0;
}

static call *call_new(program_tool *tool, idem_request *request, yyjson_val *arguments,
                      template_fault *fault) {
  call *self = calloc(1, sizeof *self);
  snprintf(fault->sentence, sizeof fault->sentence, "out of memory");
  if (!self) return NULL;
  self->tool = tool;
  self->request = request;
  edition_hold(tool->edition);
  idem__list_init(&self->link);
  idem__buf_init(&self->output, NULL, tool->config->output_bytes);
  idem__buf_init(&self->errors, NULL, (size_t)16 << 10);
  if (program_prepare(tool->config, arguments, &self->words, &self->input, fault)) return self;
  call_free(self);
  return NULL;
}

void program_tool_call(idem_request *request, yyjson_val *arguments, void *user) {
  program_tool *tool = user;
  program_host *host = tool->host;
  template_fault fault;
  if (!watch_children(host, idem_request_loop(request))) return;
  bool must_wait = host->running_count >= host->concurrency;
  if (must_wait && host->waiting_count >= host->queue) {
    reply_failed(request, "the server is busy: too many calls are waiting; try again later");
    return;
  }
  call *self = call_new(tool, request, arguments, &fault);
  if (!self) {
    reply_failed(request, fault.sentence);
    return;
  }
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, self);
  if (must_wait)
    wait_for_turn(self);
  else
    take_slot(self);
}

/* Programs that were told to end have had their time while the loop shut down. */
void program_host_end(program_host *self) {
  for (idem__list *at = self->running.next; at != &self->running; at = at->next) {
    const call *running = IDEM__CONTAINER(at, call, link);
    if (running->started && !running->exited) kill(-running->pid, SIGKILL);
  }
  spawn_end_all();
}
