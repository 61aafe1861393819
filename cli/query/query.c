/* query.c - calls of SQLite queries. A query runs on a thread of the pool, when it is its turn, so that a
 * slow one holds up nobody; one that is known to be quick is tried on the loop first. Values reach it as
 * bound parameters only. */
#include "query_job.h"

#include <idem/uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#define QUICK_US 300u                /* that long may a query hold up the loop */
#define LOOP_BYTES ((size_t)1 << 20) /* of a value there: a function may read it to its end */
#define TICK_MS 10u
#define LASTING_US 250000u /* of a thread: so long a quick one does not take */
#define WAITING_US                                                                                 \
  1000000u            /* on the clock: a busy machine alone does not keep a quick one so long */
#define SLOW_TIMES 3u /* then it is not tried there; one time may be the machine's */

/* ------------------------------------------------------------------------- one call */

/* What changed a database in time has changed it, however long its answer took; see session_open. */
static bool is_late(query_job *self) {
  if (self->on_loop || (self->tool->may_write && self->code == SQLITE_DONE))
    return self->limit.out_of_time;
  session_ended(self->session);
  return self->limit.out_of_time;
}

static void say_late(query_job *self) {
  snprintf(self->fault, sizeof self->fault, "took longer than %llu ms (deadline_ms)",
           (unsigned long long)self->tool->deadline_ms);
}

static void ask_database(query_job *self) {
  query_session *session = self->session;
  session->limit = &self->limit;
  if (query_bind(self, session->statement))
    query_take_rows(self, session);
  else
    snprintf(self->fault, sizeof self->fault, "failed: a value is too long to be bound");
  if (is_late(self)) say_late(self);
  self->took_us = session_now_us() - self->began_us;
}

static uint64_t thread_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void open_and_ask(query_job *self) {
  if (!self->session)
    self->session = session_open(self->tool, &self->limit, self->fault, sizeof self->fault);
  if (!self->session && self->limit.out_of_time) say_late(self);
  if (!self->session) return;
  self->fault[0] = 0;
  atomic_store(&self->database, self->session->database);
  ask_database(self);
}

/* On a thread of the pool. */
static void work(void *user) {
  query_job *self = user;
  uint64_t before = thread_us();
  atomic_store(&self->started_us, session_now_us());
  open_and_ask(self);
  self->worked_us = thread_us() - before;
}

/* -------------------------------------------------------------------------- answering */

static void job_clear(query_job *self) {
  if (self->session) session_keep(self->asked, self->session);
  yyjson_doc_free(self->copied);
  free(self->principal);
  if (!self->on_loop) yyjson_mut_doc_free(self->result);
  idem_buf_deinit(&self->table);
}

static void job_free(query_job *self) {
  edition *held = self->asked->edition;
  job_clear(self);
  free(self);
  edition_release(held);
}

/* The schema is the file's, the rows are the database's: they may come to disagree. */
static bool fits_schema(idem_request *request, const query_job *self, yyjson_mut_val *structured) {
  if (!self->tool->output) return true;
  yyjson_doc *copy = yyjson_mut_val_imut_copy(structured, NULL);
  bool fits = copy && reply_keeps_promise(request, self->tool, yyjson_doc_get_root(copy));
  if (!copy) reply_no_memory(request, self->tool);
  yyjson_doc_free(copy);
  return fits;
}

static void answer_rows(idem_request *request, query_job *self) {
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *content = yyjson_mut_arr(doc), *structured = self->root;
  idem_status status = IDEM_OK;
  if (self->truncated)
    status = idem_buf_printf(&self->table,
                             "There are more rows: cut after %zu (max_rows, output_bytes).\n",
                             self->row_count);
  if (doc && !self->on_loop) structured = yyjson_mut_val_mut_copy(doc, self->root);
  bool built = status == IDEM_OK && doc && structured &&
               yyjson_mut_obj_add_uint(doc, structured, "row_count", self->row_count) &&
               yyjson_mut_obj_add_bool(doc, structured, "truncated", self->truncated) &&
               (!self->tool->may_write ||
                yyjson_mut_obj_add_uint(doc, structured, "rows_changed", self->rows_changed)) &&
               idem_content_text(doc, content, self->table.data, self->table.len);
  if (!built)
    reply_no_memory(request, self->tool);
  else if (fits_schema(request, self, structured))
    reply_tool(request, self->tool,
               &(idem_tool_result){.content = content, .structured = structured});
}

/* SQLite's own sentence may quote what was searched for: the log gets what its code means. */
static void tell_failure(idem_request *request, const query_job *self) {
  bool named = self->code != SQLITE_OK && self->code != SQLITE_ROW && self->code != SQLITE_DONE;
  if (!self->session && !self->limit.out_of_time)
    failure_tell_ours(request, self->tool, "the database cannot be used: %s", self->fault);
  else if (!named || self->limit.out_of_time)
    failure_tell(request, self->tool, "the query %s", self->fault);
  else
    failure_tell(request, self->tool, "the query failed: %s", sqlite3_errstr(self->code));
}

static void answer(idem_request *request, query_job *self) {
  char sentence[512];
  if (!self->fault[0]) {
    answer_rows(request, self);
    return;
  }
  tell_failure(request, self);
  snprintf(sentence, sizeof sentence, "the query %s", self->fault);
  reply_failed(request, sentence);
}

/* --------------------------------------------------------------------------- running */

/* One for the life of the process. Two kinds of queries have slots of their own, one less each than
 * there are threads: queries that last never have all threads, so that the others need not wait for
 * one of them to end. */
static struct {
  slots brief;
  slots lasting;
  idem_list running;
  uv_timer_t timer; /* while something runs */
} host = {.running = {&host.running, &host.running}};

/* Between two steps SQLite asks us; within one, such as counting a whole table, only this ends it. */
static void stop_if_late(query_job *self, uint64_t now_us) {
  sqlite3 *database = atomic_load(&self->database);
  if (database && (now_us >= self->limit.until_us || atomic_load(&self->limit.unwanted)))
    sqlite3_interrupt(database);
}

/* A call that turns out to last leaves its slot to one that does not. */
static void notice_lasting(query_job *self, uint64_t now_us) {
  uint64_t started = atomic_load(&self->started_us);
  if (started && now_us - started >= LASTING_US) self->asked->lasting = true;
}

/* So do its tool's others, though they be younger by a moment: a slot of the lasting ones must not be
 * given away while some of those that will need one still sit elsewhere. */
static void move_if_lasting(query_job *self) {
  if (self->slots == &host.lasting || !self->asked->lasting) return;
  self->slots = &host.lasting;
  host.lasting.taken++;
  host.brief.taken--;
}

static void on_tick(uv_timer_t *timer) {
  uint64_t now = session_now_us();
  if (idem_list_empty(&host.running)) uv_timer_stop(timer);
  for (idem_list *at = host.running.next; at != &host.running; at = at->next) {
    query_job *self = IDEM_CONTAINER(at, query_job, link);
    stop_if_late(self, now);
    notice_lasting(self, now);
  }
  for (idem_list *at = host.running.next; at != &host.running; at = at->next)
    move_if_lasting(IDEM_CONTAINER(at, query_job, link));
  slots_next(&host.brief); /* when all are where they belong */
}

static void watch(query_job *self) {
  uv_loop_t *loop = idem_request_loop(self->request);
  idem_list_append(&host.running, &self->link);
  if (!host.timer.loop && uv_timer_init(loop, &host.timer) != 0) return;
  uv_unref((uv_handle_t *)&host.timer);
  if (!uv_is_active((uv_handle_t *)&host.timer))
    uv_timer_start(&host.timer, on_tick, TICK_MS, TICK_MS);
}

static void job_end(query_job *self) {
  slots *had = self->slots;
  idem_list_remove(&self->link);
  job_free(self);
  slots_give_back(had);
}

static void after(idem_request *request, void *user) {
  query_job *self = user;
  query_tool *asked = self->asked;
  uint64_t on_the_clock = session_now_us() - atomic_load(&self->started_us);
  asked->quick = !self->tool->may_write && !self->fault[0] && self->took_us < QUICK_US;
  asked->slow = 0;
  asked->lasting = self->worked_us >= LASTING_US || on_the_clock >= WAITING_US;
  if (atomic_load(&self->limit.unwanted))
    idem_request_drop(request);
  else
    answer(request, self);
  job_end(self);
}

/* It has its slot. */
static void run(query_job *self) {
  idem_request *request = self->request;
  self->session = session_take(self->asked);
  if (self->session) session_let_go(self->session);
  if (self->tool->may_write) session_let_all_go();
  self->began_us = session_now_us();
  self->limit.until_us = self->began_us + self->tool->deadline_ms * 1000u;
  watch(self);
  if (idem_offload(idem_request_loop(request), request, work, after, self) == IDEM_OK) return;
  idem_request_on_cancel(request, NULL, NULL);
  reply_no_memory(request, self->tool);
  job_end(self);
}

static void give_way(query_job *self) {
  idem_request_on_cancel(self->request, NULL, NULL);
  reply_busy(self->request, self->tool);
  job_free(self);
}

static slot_answer ask_for_slot(query_job *self) {
  query_tool *asked = self->asked;
  turns_tool *tool = asked->lasting ? &asked->lasting_turns : &asked->brief_turns;
  self->slots = asked->lasting ? &host.lasting : &host.brief;
  self->slots->queue = asked->edition->config.queue;
  return slots_ask(self->slots, &self->turn, tool, self->request);
}

/* What was found to last since it began to wait goes to where such calls wait. */
static void on_turn(turns_call *turn) {
  query_job *self = IDEM_CONTAINER(turn, query_job, turn);
  if (!self->asked->lasting || self->slots == &host.lasting) {
    run(self);
    return;
  }
  slot_answer answer = ask_for_slot(self);
  if (answer == SLOT_TAKEN) run(self);
  if (answer == SLOT_BUSY) give_way(self);
  slots_give_back(&host.brief);
}

static void on_give_way(turns_call *turn) { give_way(IDEM_CONTAINER(turn, query_job, turn)); }

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  query_job *self = user;
  (void)reason;
  if (self->turn.lane) {
    slots_leave(self->slots, &self->turn);
    reply_cancelled(request, self->tool, false);
    job_free(self);
    return;
  }
  outcome_cancelled(request, self->tool);
  atomic_store(&self->limit.unwanted, true);
  stop_if_late(self, 0);
}

/* libuv's pool has four threads unless its variable says otherwise. */
static void host_init(void) {
  const char *given = getenv("UV_THREADPOOL_SIZE");
  long threads = given ? strtol(given, NULL, 10) : 4;
  if (host.brief.begin) return;
  slots_init(&host.brief, on_turn, on_give_way);
  slots_init(&host.lasting, on_turn, on_give_way);
  host.brief.limit = host.lasting.limit = threads > 2 ? (size_t)threads - 1 : 1;
}

/* -------------------------------------------------------------------------- starting */

/* The result is built in `result`. False: no memory. */
static bool job_init(query_job *self, query_tool *asked, yyjson_mut_doc *result) {
  self->asked = asked;
  self->tool = asked->config;
  self->result = result;
  self->root = yyjson_mut_obj(result);
  self->rows = yyjson_mut_obj_add_arr(result, self->root, "rows");
  self->began_us = session_now_us();
  idem_buf_init(&self->table, NULL, asked->config->output_bytes * 4 + 65536);
  return self->rows;
}

/* A text can make any function of the query work hard. */
static bool binds_text(yyjson_val *arguments) {
  yyjson_val *key, *value;
  size_t i, max;
  idem_each_member(arguments, i, max, key, value) {
    (void)key;
    if (yyjson_is_str(value) || yyjson_is_ctn(value)) return true;
  }
  return false;
}

/* A query that was quick the last time has a moment on the loop: a thread would cost more than it
 * does. It only reads, so it can be begun again elsewhere. True: answered. */
static bool answer_quickly(query_tool *asked, idem_request *request, yyjson_val *arguments) {
  query_job self = {.on_loop = true, .arguments = arguments};
  if (!asked->quick || asked->config->output_bytes > LOOP_BYTES || binds_text(arguments) ||
      asked->config->knows_caller || !(self.session = session_take(asked)))
    return false;
  self.limit.impatient = true;
  self.session->limit = &self.limit;
  session_hold(self.session, idem_request_loop(request));
  bool built = job_init(&self, asked, idem_request_doc(request));
  self.limit.until_us = self.began_us + QUICK_US;
  if (built) ask_database(&self);
  bool answered = built && !self.limit.out_of_time && !self.locked;
  asked->slow = self.took_us < QUICK_US ? 0 : asked->slow + 1;
  asked->quick = answered && asked->slow < SLOW_TIMES;
  if (answered)
    answer(request, &self);
  else
    session_let_go(self.session);
  job_clear(&self);
  return answered;
}

static query_job *job_new(query_tool *asked, idem_request *request, yyjson_val *arguments) {
  query_job *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  self->request = request;
  idem_list_init(&self->link);
  idem_list_init(&self->turn.link);
  edition_hold(asked->edition);
  yyjson_mut_doc *copy = yyjson_mut_doc_new(NULL);
  if (copy) yyjson_mut_doc_set_root(copy, yyjson_val_mut_copy(copy, arguments));
  self->copied = copy ? yyjson_mut_doc_imut_copy(copy, NULL) : NULL;
  self->arguments = yyjson_doc_get_root(self->copied);
  yyjson_mut_doc_free(copy);
  bool named = asked->config->knows_caller;
  if (named) self->principal = strdup(idem_principal(request));
  if (job_init(self, asked, yyjson_mut_doc_new(NULL)) && self->arguments &&
      (!named || self->principal))
    return self;
  job_free(self);
  return NULL;
}

void query_tool_call(idem_request *request, yyjson_val *arguments, void *user) {
  query_tool *tool = user;
  if (answer_quickly(tool, request, arguments)) return;
  query_job *self = job_new(tool, request, arguments);
  if (!self) {
    reply_no_memory(request, tool->config);
    return;
  }
  host_init();
  slot_answer answer = ask_for_slot(self);
  if (answer == SLOT_BUSY) {
    give_way(self);
    return;
  }
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, self);
  if (answer == SLOT_TAKEN) run(self);
}
