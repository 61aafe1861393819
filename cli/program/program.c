/* program.c - calls of programs come in, wait for their turn, and get a slot. At most `concurrency`
 * programs run; who waits is taken in turns, see turns.h. */
#include "program.h"

#include "service/edition.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPAWNER_AFTER_MS 20u

static void on_turn(turns_call *turn);
static void on_give_way(turns_call *turn);

void program_host_init(program_host *self, idem_log *log, const char *const *own_files) {
  *self = (program_host){.spare = PIPES_NONE, .own_files = own_files};
  slots_init(&self->slots, on_turn, on_give_way);
  idem_list_init(&self->running);
  idem_list_init(&self->kept);
  runners_init(&self->runners, log);
  signal(SIGPIPE, SIG_IGN); /* a program may end before it has read its input */
}

void program_tool_init(program_tool *self, program_host *host, edition *owner, size_t index) {
  *self = (program_tool){.host = host,
                         .edition = owner,
                         .file = &owner->config,
                         .config = &owner->config.tools[index],
                         .bounds = &owner->bounds};
  turns_tool_init(&self->turns);
}

/* ------------------------------------------------------------------------- slots */

static void take_slot(call *self) {
  idem_list_append(&self->tool->host->running, &self->link);
  call_start(self);
}

static void on_turn(turns_call *turn) { take_slot(IDEM_CONTAINER(turn, call, turn)); }

static void on_give_way(turns_call *turn) {
  call *self = IDEM_CONTAINER(turn, call, turn);
  idem_request *owed = self->request;
  self->request = NULL;
  reply_busy(owed, self->tool->config);
  call_free(self);
}

static void start_spawner(program_host *self) {
  if (self->runs_programs) runners_start(&self->runners);
}

void program_host_limits(program_host *self, const serve_config *config) {
  self->runs_programs = false;
  for (size_t i = 0; i < config->tool_count; i++)
    self->runs_programs = self->runs_programs || config->tools[i].is_program;
  if (self->loop) start_spawner(self);
  self->slots.limit = config->concurrency;
  self->slots.queue = config->queue;
  slots_next(&self->slots);
}

static void on_soon(uv_timer_t *timer) { start_spawner(timer->data); }

/* Whoever has started us waits for the first answer, which needs no spawner; a call that comes
 * before it is there starts it. If it cannot be started, calls say so. */
void program_host_on_loop(program_host *self, uv_loop_t *loop) {
  self->loop = loop;
  if (uv_timer_init(loop, &self->soon) != 0 || uv_timer_init(loop, &self->kept_timer) != 0) return;
  self->soon.data = self;
  uv_unref((uv_handle_t *)&self->soon);
  uv_unref((uv_handle_t *)&self->kept_timer);
  uv_timer_start(&self->soon, on_soon, SPAWNER_AFTER_MS, 0);
}

void program_call_ended(call *self) {
  program_host *host = self->tool->host;
  idem_list_remove(&self->link);
  slots_give_back(&host->slots);
}

/* ------------------------------------------------------------------------- calls */

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  call *self = user;
  (void)reason;
  self->request = NULL;
  reply_cancelled(request, self->tool->config, self->started || self->kept_id);
  if (!self->turn.lane) {
    call_cancel(self);
    return;
  }
  slots_leave(&self->tool->host->slots, &self->turn);
  call_free(self);
}

static call *call_new(program_tool *tool, idem_request *request, yyjson_val *arguments,
                      template_fault *fault) {
  call *self = calloc(1, sizeof *self);
  snprintf(fault->sentence, sizeof fault->sentence, "out of memory");
  if (!self) return NULL;
  self->tool = tool;
  self->request = request;
  self->unread = PIPES_NONE;
  edition_hold(tool->edition);
  idem_list_init(&self->link);
  idem_list_init(&self->turn.link);
  idem_list_init(&self->user.link);
  idem_list_init(&self->kept_link);
  idem_buf_init(&self->output, NULL, tool->config->output_bytes);
  idem_buf_init(&self->errors, NULL, (size_t)32 << 10); /* at least half of it is kept */
  if (program_prepare(tool->config, request, arguments, &self->words, &self->variables,
                      &self->input, fault))
    return self;
  call_free(self);
  return NULL;
}

void program_tool_call(idem_request *request, yyjson_val *arguments, void *user) {
  program_tool *tool = user;
  program_host *host = tool->host;
  template_fault fault;
  call *self = call_new(tool, request, arguments, &fault);
  if (!self) {
    failure_tell(request, tool->config, "refused, %s", fault.sentence);
    reply_failed(request, fault.sentence);
    return;
  }
  host->loop = idem_request_loop(request);
  slot_answer answer = slots_ask(&host->slots, &self->turn, &tool->turns, request);
  if (answer == SLOT_BUSY) {
    reply_busy(request, tool->config);
    call_free(self);
    return;
  }
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, self);
  if (answer == SLOT_TAKEN) take_slot(self);
}

/* Programs that were told to end have had their time while the loop shut down. What the loop still
 * knew of them is gone with it. */
void program_host_end(program_host *self) {
  turns_call *next;
  runners_end(&self->runners);
  pipes_close(&self->spare);
  while ((next = turns_take_any(&self->slots.turns))) call_free(IDEM_CONTAINER(next, call, turn));
  idem_router_free(self->kept_router);
  self->kept_router = NULL;
  while (!idem_list_empty(&self->running)) {
    call *left = IDEM_CONTAINER(self->running.next, call, link);
    idem_list_remove(&left->link);
    call_free(left);
  }
}
