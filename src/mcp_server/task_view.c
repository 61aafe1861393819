/* task_view.c - a task as it was at a moment. What belongs to it may be megabytes: who holds the tasks'
 * lock counts the texts, and writes them when all workers may go on. */
#include "server.h"
#include "task.h"

#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------------- texts */

idem__task_text *idem__task_text_new(idem_server *server, const char *bytes, size_t len) {
  if (len >= SIZE_MAX - sizeof(idem__task_text)) return NULL;
  idem__task_text *text = idem__malloc(&server->alloc, sizeof *text + len + 1);
  if (!text) return NULL;
  atomic_init(&text->refs, 1);
  text->charged = 0;
  text->len = len;
  if (len) memcpy(text->bytes, bytes, len);
  text->bytes[len] = '\0';
  return text;
}

bool idem__task_text_charge(idem_server *server, idem__task_text *text) {
  if (!idem__tasks_charge(server, text->len)) return false;
  text->charged = text->len;
  return true;
}

idem__task_text *idem__task_text_ref(idem__task_text *text) {
  if (text) atomic_fetch_add_explicit(&text->refs, 1, memory_order_relaxed);
  return text;
}

void idem__task_text_unref(idem_server *server, idem__task_text *text) {
  if (!text || atomic_fetch_sub_explicit(&text->refs, 1, memory_order_acq_rel) != 1) return;
  idem__tasks_release_bytes(server, text->charged);
  idem__free(&server->alloc, text);
}

/* -------------------------------------------------------------------- views */

static void take_asks(idem__task_view *view, const idem__task *task) {
  if (!task->ask_count) return;
  view->asks = idem__calloc(&task->server->alloc, task->ask_count * sizeof *view->asks);
  if (!view->asks) {
    view->status = IDEM_E_NOMEM;
    return;
  }
  view->ask_count = task->ask_count;
  for (size_t i = 0; i < task->ask_count; i++) {
    const idem__task_ask_entry *entry = &task->asks[i];
    view->asks[i] = (idem__task_ask_entry){.key = idem__task_text_ref(entry->key),
                                           .name = idem__task_text_ref(entry->name),
                                           .json = idem__task_text_ref(entry->json),
                                           .answer = idem__task_text_ref(entry->answer)};
  }
}

idem__task_view idem__task_view_take(const idem__task *task) {
  idem__task_view view = {.task = task,
                          .state = task->state,
                          .is_error = task->is_error,
                          .created_ms = task->created_ms,
                          .updated_ms = task->updated_ms,
                          .round = task->round,
                          .message = idem__task_text_ref(task->message),
                          .outcome = idem__task_text_ref(task->outcome)};
  take_asks(&view, task);
  return view;
}

idem__task_view idem__task_view_of(const idem__task *task) {
  idem__tasks_lock(task->server);
  idem__task_view view = idem__task_view_take(task);
  idem__tasks_unlock(task->server);
  return view;
}

void idem__task_view_end(idem__task_view *view) {
  idem_server *server = view->task->server;
  idem__task_text_unref(server, view->message);
  idem__task_text_unref(server, view->outcome);
  if (view->asks) idem__task_free_entries(server, view->asks, view->ask_count);
}

/* ------------------------------------------------------------------ writing */

/* Days since 1970 to a date; the proleptic Gregorian calendar, years from March. */
static void write_time(idem__writer *writer, const char *key, uint64_t wall_ms) {
  uint64_t days = wall_ms / 86400000u, ms = wall_ms % 86400000u;
  uint64_t shifted = days + 719468, era = shifted / 146097, day_of_era = shifted % 146097;
  uint64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  uint64_t month_index = (5 * day_of_year + 2) / 153;
  uint64_t day = day_of_year - (153 * month_index + 2) / 5 + 1;
  uint64_t month = month_index < 10 ? month_index + 3 : month_index - 9;
  uint64_t year = year_of_era + era * 400 + (month <= 2);
  char text[64];
  snprintf(text, sizeof text, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", (unsigned)year,
           (unsigned)month, (unsigned)day, (unsigned)(ms / 3600000), (unsigned)(ms / 60000 % 60),
           (unsigned)(ms / 1000 % 60), (unsigned)(ms % 1000));
  idem__write_member_text(writer, key, text);
}

static void write_open_asks(const idem__task_view *view, idem__writer *writer) {
  idem__write_key(writer, "inputRequests");
  idem__write_object(writer);
  for (size_t i = 0; i < view->ask_count; i++) {
    if (view->asks[i].answer || !view->asks[i].name) continue;
    idem__write_member_raw(writer, idem__task_text_bytes(view->asks[i].name),
                           idem__task_text_bytes(view->asks[i].json));
  }
  idem__write_object_end(writer);
}

static void write_detail(const idem__task_view *view, idem__writer *writer) {
  if (view->state == IDEM__TASK_INPUT) write_open_asks(view, writer);
  if (!view->outcome) return;
  if (view->state != IDEM__TASK_COMPLETED && view->state != IDEM__TASK_FAILED) return;
  idem__write_key(writer, view->is_error ? "error" : "result");
  idem__write_raw(writer, view->outcome->bytes, view->outcome->len);
}

void idem__task_view_write(const idem__task_view *view, const idem__revision *revision,
                           bool detailed, idem__writer *writer) {
  const idem_server_opts *opts = &view->task->server->opts;
  bool modern = idem__revision_has(revision, IDEM__R_MODERN);
  if (view->status != IDEM_OK) writer->status = view->status;
  idem__write_member_text(writer, "taskId", view->task->id);
  idem__write_member_text(writer, "status", idem__task_state_word(view->state));
  idem__write_member_text(writer, "statusMessage", idem__task_text_bytes(view->message));
  write_time(writer, "createdAt", view->created_ms);
  write_time(writer, "lastUpdatedAt", view->updated_ms);
  idem__write_member_int(writer, modern ? "ttlMs" : "ttl", (int64_t)opts->task_ttl_ms);
  idem__write_member_int(writer, modern ? "pollIntervalMs" : "pollInterval",
                         (int64_t)opts->task_poll_ms);
  if (detailed && modern) write_detail(view, writer);
}

void idem__task_write_related(const char *task_id, idem__writer *writer) {
  idem__write_key(writer, "_meta");
  idem__write_object(writer);
  idem__write_key(writer, "io.modelcontextprotocol/related-task");
  idem__write_object(writer);
  idem__write_member_text(writer, "taskId", task_id);
  idem__write_object_end(writer);
  idem__write_object_end(writer);
}
