/* keep.c - see keep.h. A program is started for the first call that needs it and stopped when it has been idle; one that
 * dies takes its calls along and is started again for a later one, the more slowly the more often it dies. */
#include "keep.h"

#include "keep_answer.h"
#include <idem/program.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACK_OFF_MS 100u
#define BACK_OFF_MOST_MS 30000u
#define WAIT_MS 1000u      /* a call waits so long for a program that died; else it is told */
#define DEAD_RUNNERS 32u   /* met by one start, before it is told */
#define ANSWER_MORE 65536u /* of an answer, beyond what its tool may say */

static void bring_up(kept_program *self);
static void schedule(program_host *host);

static uint64_t now_ms(const kept_program *self) { return uv_now(self->tool->host->loop); }

/* -------------------------------------------------------------------- the end of calls */

static void end_call(call *self) {
  idem_list_remove(&self->kept_link);
  program_call_ended(self);
  call_free(self);
}

static void fail_call(call *self) {
  kept_answer_lost(self, self->tool->kept);
  end_call(self);
}

static void fail_all(idem_list *calls) {
  while (!idem_list_empty(calls)) fail_call(IDEM_CONTAINER(calls->next, call, kept_link));
}

static void stop(kept_program *self, bool expected) {
  self->expected = expected;
  self->state = KEPT_LEAVING;
  idem_conn_close(self->conn);
}

/* It was idle from now on, or nobody will come any more. */
static void note_rest(kept_program *self) {
  if (!idem_list_empty(&self->asked) || !idem_list_empty(&self->waiting) ||
      !idem_list_empty(&self->lost))
    return;
  self->idle_since_ms = now_ms(self);
  if (self->retired && self->state == KEPT_UP) stop(self, true);
  schedule(self->tool->host);
}

/* ------------------------------------------------------------------------------ asking */

/* The conn may close before it is known how its program ended: those calls wait for that. Where it was
 * ended since the server stops, nobody gave an answer: they are cancelled with all that still runs. */
static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  call *self = user;
  kept_program *kept = self->tool->kept;
  (void)conn;
  if (response->status == IDEM_E_CLOSED && (kept->conn || kept->expected)) {
    idem_list_remove(&self->kept_link);
    idem_list_append(&kept->lost, &self->kept_link);
    return;
  }
  bool stuck = response->status == IDEM_E_TIMEOUT && kept->heard == self->kept_heard;
  if (response->status == IDEM_OK || response->status == IDEM_E_REMOTE) {
    kept->heard++;
    kept->failures = 0;
  }
  if (response->status == IDEM_E_CLOSED)
    kept_answer_lost(self, kept);
  else
    kept_answer(self, response);
  end_call(self);
  if (stuck && kept->state == KEPT_UP) {
    snprintf(kept->stopped, sizeof kept->stopped, "it was stopped, since it said nothing any more");
    stop(kept, false);
  }
  note_rest(kept);
}

static void ask(kept_program *self, call *one) {
  const tool_config *config = one->tool->config;
  idem_call_opts opts = {.timeout_ms = config->deadline_ms};
  idem_list_remove(&one->kept_link);
  idem_list_append(&self->asked, &one->kept_link);
  one->kept_heard = self->heard;
  idem_status status = idem_call_json(self->conn, config->name, one->input.data, one->input.len,
                                      &opts, on_response, one, &one->kept_id);
  if (status == IDEM_OK) return;
  if (status == IDEM_E_CLOSED) { /* its input has ended; the next that is started is asked */
    idem_list_remove(&one->kept_link);
    idem_list_append(&self->waiting, &one->kept_link);
    self->state = KEPT_LEAVING;
    return;
  }
  snprintf(self->reason, sizeof self->reason, "reads nothing of what it is asked");
  fail_call(one);
}

static void ask_all(kept_program *self) {
  while (self->state == KEPT_UP && !idem_list_empty(&self->waiting))
    ask(self, IDEM_CONTAINER(self->waiting.next, call, kept_link));
}

void kept_cancel(call *self) {
  kept_program *kept = self->tool->kept;
  bool asked = self->kept_id && kept->conn && kept->state == KEPT_UP;
  if (asked && idem_cancel(kept->conn, self->kept_id) == IDEM_OK)
    return;                            /* it has ended the call */
  edition *held = self->tool->edition; /* it may go with its last call, and `kept` with it */
  edition_hold(held);
  end_call(self);
  note_rest(kept);
  edition_release(held);
}

/* --------------------------------------------------------------------- what it tells us */

static call *find_call(const kept_program *self, yyjson_val *id) {
  for (idem_list *at = self->asked.next; at != &self->asked; at = at->next) {
    call *one = IDEM_CONTAINER(at, call, kept_link);
    if (yyjson_is_int(id) && yyjson_get_uint(id) == one->kept_id) return one;
  }
  return NULL;
}

static void on_progress(idem_conn *conn, yyjson_val *params, void *user) {
  kept_program *self = idem_conn_data(conn);
  call *one = find_call(self, yyjson_obj_get(params, "id"));
  double done = yyjson_get_num(yyjson_obj_get(params, "progress"));
  double total = yyjson_get_num(yyjson_obj_get(params, "total"));
  (void)user;
  self->heard++;
  if (one && one->request && done >= 0 && done < 1e15 && total >= 0 && total < 1e15)
    idem_progress(one->request, done, total, yyjson_get_str(yyjson_obj_get(params, "message")));
}

static void on_log(idem_conn *conn, yyjson_val *params, void *user) {
  kept_program *self = idem_conn_data(conn);
  (void)user;
  self->heard++;
  kept_log(self, params);
}

static void on_errors(idem_conn *conn, const char *data, size_t len, void *user) {
  const kept_program *self = user;
  (void)conn;
  program_log_errors(self->tool, data, len);
}

/* An answer that is too large is skipped by the engine, and nobody knows whose it was. */
static void on_fault(idem_conn *conn, const idem_protocol_error *error, void *user) {
  kept_program *self = user;
  (void)conn;
  static const char oversize[] = "oversize";
  if (self->state != KEPT_UP || error->message_len != sizeof oversize - 1 ||
      memcmp(error->message, oversize, sizeof oversize - 1) != 0)
    return;
  snprintf(self->stopped, sizeof self->stopped,
           "it was stopped: an answer was larger than %zu bytes (output_bytes)",
           self->message_bytes - ANSWER_MORE);
  stop(self, false);
}

static bool make_router(program_host *host) {
  if (host->kept_router) return true;
  return idem_router_new(&(idem_router_opts){.seed = idem_random_seed()}, &host->kept_router) ==
             IDEM_OK &&
         idem_router_notification(host->kept_router, "progress", on_progress, NULL) == IDEM_OK &&
         idem_router_notification(host->kept_router, "log", on_log, NULL) == IDEM_OK;
}

/* ------------------------------------------------------------------------------ its end */

static uint64_t back_off(unsigned failures) {
  uint64_t pause = BACK_OFF_MS;
  while (--failures && pause < BACK_OFF_MOST_MS) pause *= 2;
  return pause < BACK_OFF_MOST_MS ? pause : BACK_OFF_MOST_MS;
}

static void tell_end(const kept_program *self, uint64_t pause) {
  idem_logf(self->tool->host->runners.log, IDEM_LOG_WARN, "a program that stays has ended",
            "%s: %s; it is started again for a call in %llu ms or later", self->tool->config->name,
            self->reason, (unsigned long long)pause);
}

/* The edition may be gone with its last process, and this with it. */
static void go_down(kept_program *self) {
  program_host *host = self->tool->host;
  edition *held = self->tool->edition;
  self->state = KEPT_DOWN;
  if (!self->expected) {
    uint64_t pause = back_off(++self->failures);
    self->not_before_ms = now_ms(self) + pause;
    tell_end(self, pause);
  }
  if (!self->expected) fail_all(&self->lost); /* else the server stops, and cancels them */
  if (!idem_list_empty(&self->waiting) && now_ms(self) >= self->not_before_ms) bring_up(self);
  schedule(host);
  edition_release(held);
}

static void take_reason(kept_program *self, const idem_close_reason *reason) {
  if (self->stopped[0])
    snprintf(self->reason, sizeof self->reason, "%s", self->stopped);
  else if (self->start_failure)
    snprintf(self->reason, sizeof self->reason, "it could not be started: %s",
             strerror(self->start_failure));
  else
    snprintf(self->reason, sizeof self->reason, "its program has ended (%s)", reason->text);
  self->errors_len =
      reason->errors_len < sizeof self->errors ? reason->errors_len : sizeof self->errors;
  if (reason->errors) memcpy(self->errors, reason->errors, self->errors_len);
}

static void on_close(idem_conn *conn, void *user) {
  kept_program *self = user;
  idem_close_reason reason = idem_conn_close_reason(conn);
  take_reason(self, &reason);
  bool idle = idem_list_empty(&self->asked) && idem_list_empty(&self->lost);
  if (!self->stopped[0] && ((reason.asked && idle) || reason.server_stops)) self->expected = true;
  self->conn = NULL; /* calls that the conn ends from now on are told at once */
  if (self->user.runner) runner_drop(self->user.runner);
  go_down(self);
}

static void on_reported(runner_user *user, order_note note) {
  kept_program *self = IDEM_CONTAINER(user, kept_program, user);
  if (!self->conn) return;
  if (note.kind == REPORT_FAILED) self->start_failure = note.value;
  if (note.kind == REPORT_CROWDED)
    snprintf(self->stopped, sizeof self->stopped,
             "it was ended: more processes came of it than may (processes)");
  idem_program_ended(self->conn, note.kind == REPORT_FAILED ? 127 << 8
                                 : note.kind                ? note.value
                                                            : SIGKILL);
}

/* ---------------------------------------------------------------------------- its start */

static int start(void *user, int input, int output, int errors) {
  kept_program *self = user;
  static const values none = {.arguments = NULL};
  template_fault fault;
  word_list words = {.items = NULL}, variables = {.items = NULL};
  int why = ENOMEM;
  self->files = kept_files(self->tool->config); /* before it reads them */
  if (template_expand(&self->tool->config->run, &none, &words, &fault))
    why = program_order(self->tool, self->user.runner, &words, &variables,
                        (program_files){input, output, errors});
  word_list_free(&words);
  self->start_failure = why;
  return why;
}

static void send_signal(void *user, int number) {
  kept_program *self = user;
  if (self->user.runner)
    runner_tell(self->user.runner, number == SIGKILL ? ORDER_KILL : ORDER_TERM);
}

static idem_status connect_to(kept_program *self) {
  static const idem_program_keeper keeper = {.start = start, .signal = send_signal};
  program_host *host = self->tool->host;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.answer_junk = false;
  policy.cancel = (idem_cancel_form){.method = "cancel", .id_member = "id"};
  policy.limits.message_bytes = self->message_bytes;
  idem_connect_opts opts = {.router = host->kept_router,
                            .policy = &policy,
                            .log = host->runners.log,
                            .on_close = on_close,
                            .on_stderr = on_errors,
                            .on_protocol_error = on_fault,
                            .user = self};
  return idem_connect_kept(host->loop, &opts, self->tool->config->name, &keeper, self, &self->conn);
}

static void could_not_start(kept_program *self, int why) {
  snprintf(self->reason, sizeof self->reason, "it could not be started: %s", strerror(why));
  self->errors_len = 0;
  self->expected = false;
  fail_all(&self->waiting);
  go_down(self);
}

static void on_ready(runner_user *user, int why) {
  kept_program *self = IDEM_CONTAINER(user, kept_program, user);
  program_host *host = self->tool->host;
  self->start_failure = why;
  if (!why && make_router(host) && connect_to(self) == IDEM_OK) {
    self->state = KEPT_UP;
    idem_conn_set_data(self->conn, self);
    ask_all(self);
    note_rest(self);
    return;
  }
  bool dead = self->start_failure == EPIPE && self->user.runner;
  if (dead)
    runner_forget(self->user.runner);
  else if (self->user.runner)
    runner_return(self->user.runner);
  if (dead && self->dead_runners++ < DEAD_RUNNERS)
    runners_want(&host->runners, host->loop, &self->user);
  else
    could_not_start(self, self->start_failure ? self->start_failure : ENOMEM);
}

/* A process holds the edition, as a call does. */
static void bring_up(kept_program *self) {
  program_host *host = self->tool->host;
  self->state = KEPT_COMING;
  self->expected = false;
  self->stopped[0] = 0;
  self->dead_runners = 0;
  edition_hold(self->tool->edition);
  self->user.ready = on_ready;
  self->user.reported = on_reported;
  self->user.seal = confinement_seal(self->tool->bounds, self->tool->config);
  runners_want(&host->runners, host->loop, &self->user);
}

/* -------------------------------------------------------------------------------- time */

static bool is_idle(const kept_program *self) {
  return self->state == KEPT_UP && idem_list_empty(&self->asked) &&
         idem_list_empty(&self->waiting) &&
         idem_list_empty(&self->lost); /* those wait for how it ended */
}

static bool is_awaited(const kept_program *self) {
  return self->state == KEPT_DOWN && !idem_list_empty(&self->waiting);
}

static uint64_t next_ms(const kept_program *self) {
  if (is_idle(self)) return self->idle_since_ms + self->idle_ms;
  return is_awaited(self) ? self->not_before_ms : UINT64_MAX;
}

static void on_time(uv_timer_t *timer) {
  program_host *host = timer->data;
  for (idem_list *at = host->kept.next, *next; at != &host->kept; at = next) {
    kept_program *self = IDEM_CONTAINER(at, kept_program, link);
    next = at->next;
    if (next_ms(self) > now_ms(self)) continue;
    if (is_idle(self))
      stop(self, true);
    else
      bring_up(self);
  }
  schedule(host);
}

static void schedule(program_host *host) {
  uint64_t first = UINT64_MAX, now = uv_now(host->loop);
  for (idem_list *at = host->kept.next; at != &host->kept; at = at->next) {
    uint64_t due = next_ms(IDEM_CONTAINER(at, kept_program, link));
    if (due < first) first = due;
  }
  if (!host->soon.data) return;
  host->kept_timer.data = host;
  if (first < UINT64_MAX)
    uv_timer_start(&host->kept_timer, on_time, idem_timer_ms(first, now), 0);
  else
    uv_timer_stop(&host->kept_timer);
}

/* ------------------------------------------------------------------------- entry points */

/* One that dies again and again makes nobody wait. */
void kept_call(call *self) {
  kept_program *kept = self->tool->kept;
  uint64_t now = now_ms(kept);
  if (idem_list_empty(&kept->link)) idem_list_append(&kept->tool->host->kept, &kept->link);
  if (kept->state == KEPT_DOWN && kept->not_before_ms > now + WAIT_MS) {
    fail_call(self);
    return;
  }
  idem_list_append(&kept->waiting, &self->kept_link);
  if (kept->state == KEPT_UP)
    ask_all(kept);
  else if (kept->state == KEPT_DOWN && now >= kept->not_before_ms)
    bring_up(kept);
  else
    schedule(kept->tool->host);
}

bool kept_is_shared(const tool_config *one, const tool_config *other) {
  static const char *const keys[] = {"run",     "cwd",    "env",       "pass_env", "allow",
                                     "confine", "inside", "processes", "stderr"};
  yyjson_val *mine = yyjson_obj_iter_get_val(one->key), *its = yyjson_obj_iter_get_val(other->key);
  if (!one->keep || !other->keep) return false;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    yyjson_val *a = yyjson_obj_get(mine, keys[i]), *b = yyjson_obj_get(its, keys[i]);
    if (!a != !b || (a && !yyjson_equals(a, b))) return false;
  }
  return true;
}

kept_program *kept_new(program_tool *first) {
  kept_program *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  self->tool = first;
  idem_list_init(&self->waiting);
  idem_list_init(&self->asked);
  idem_list_init(&self->lost);
  idem_list_init(&self->user.link);
  idem_list_init(&self->link); /* a reload reads on another thread, so the host is not touched */
  return self;
}

void kept_join(kept_program *self, const tool_config *tool) {
  size_t most = tool->output_bytes + ANSWER_MORE;
  if (tool->idle_ms > self->idle_ms) self->idle_ms = tool->idle_ms;
  if (most > self->message_bytes) self->message_bytes = most;
}

void kept_retire(kept_program *self) {
  self->retired = true;
  if (is_idle(self)) stop(self, true);
}

void kept_free(kept_program *self) {
  idem_list_remove(&self->link);
  free(self);
}
