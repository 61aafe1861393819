/* session_log.c - the events of legacy sessions: numbered, kept in the log of the session's record, and
 * shown again to clients that come back with Last-Event-ID. */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

#define ADDING_TRIES 4u

bool idem__event_read(const idem__store_item *item, idem__event_head *head) {
  if (item->len < sizeof *head) return false;
  memcpy(head, item->bytes, sizeof *head);
  return true;
}

static idem_status write_event(idem_buf *out, uint64_t stream, uint32_t sequence, const char *text,
                               size_t len) {
  char id[40];
  snprintf(id, sizeof id, "%llx-%x", (unsigned long long)stream, (unsigned)sequence);
  return idem__sse_put_event(out, "message", id, text, len);
}

/* ---------------------------------------------------------------- appending */

static idem__store_op append_op(const idem__http_session *session, const idem_buf *entry) {
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_APPEND);
  op.bytes = entry->data;
  op.len = entry->len;
  op.limit = session->table->opts.log_bytes;
  return op;
}

static idem_status write_entry(idem_buf *entry, const idem__event_head *head, const char *text,
                               size_t len) {
  idem_status status = idem_buf_put(entry, head, sizeof *head);
  return status == IDEM_OK ? idem_buf_put(entry, text, len) : status;
}

/* Nobody waits for its number. Of what an immediate store is told its watchers need not tell us. */
static void append(idem__http_session *session, const idem__event_head *head, const char *text,
                   size_t len) {
  idem_buf entry;
  bool immediate = session->table->store->kind->immediate;
  idem_buf_init(&entry, &session->table->alloc, sizeof *head + len);
  if (write_entry(&entry, head, text, len) == IDEM_OK) {
    idem__store_op op = append_op(session, &entry);
    if (immediate) idem__http_session_busy(session, true);
    idem__store_run(session->table->store, &op);
    if (immediate) idem__http_session_busy(session, false);
  }
  idem_buf_deinit(&entry);
}

void idem__http_session_keep(idem__http_session *session, const char *text, size_t len) {
  append(session, &(idem__event_head){.stream = 0}, text, len);
}

/* An event has no number where the session is gone, or there is no memory, or the store does not come back in time. */
static void end_adding(idem__session_event *event, uint32_t number) {
  idem__http_session_busy(event->session, false);
  if (number) event->after = number;
  event->added(number, event->user);
}

static void append_event(idem__session_event *event);

/* What the log has of its stream behind the last is this one: they are added one by one. */
static bool find_event(const idem__store_item *item, void *user) {
  idem__session_event *event = user;
  idem__event_head head;
  if (!idem__event_read(item, &head)) return true;
  if (head.stream == event->stream) event->found = (uint32_t)item->number;
  return !event->found;
}

static void look_for_event(idem__session_event *event);

static void on_looked(const idem__store_answer *answer, void *user) {
  idem__session_event *event = user;
  if (answer->status == IDEM_OK && !event->found)
    append_event(event);
  else if (answer->status == IDEM_OK || answer->status == IDEM_E_NOTFOUND)
    end_adding(event, event->found);
  else
    look_for_event(event);
}

/* Nobody knows whether it is kept; without it whoever comes back would miss it, with two of it see it twice. A store whose connection broke
 * has each operation wait for a while. */
static void look_for_event(idem__session_event *event) {
  idem__store_op op = idem__http_session_op(event->session, IDEM__STORE_READ);
  if (++event->tries > ADDING_TRIES) {
    end_adding(event, 0);
    return;
  }
  op.after = event->after;
  op.each = find_event;
  op.done = on_looked;
  op.user = event;
  idem__store_submit(event->session->table->store, event->queue, &op, &event->pending);
}

static void on_appended(const idem__store_answer *answer, void *user) {
  bool unknown = answer->status == IDEM_E_SYS || answer->status == IDEM_E_TIMEOUT;
  if (unknown)
    look_for_event(user);
  else
    end_adding(user, answer->status == IDEM_OK ? (uint32_t)answer->number : 0);
}

/* `done` is called in any case. */
static void submit_entry(idem__session_event *event, const idem__event_head *head, const char *text,
                         size_t len, idem__store_done done) {
  idem__http_session *session = event->session;
  idem_buf entry;
  idem_buf_init(&entry, &session->table->alloc, sizeof *head + len);
  if (write_entry(&entry, head, text, len) == IDEM_OK) {
    idem__store_op op = append_op(session, &entry);
    op.done = done;
    op.user = event;
    idem__store_submit(session->table->store, event->queue, &op, &event->pending);
  } else {
    end_adding(event, 0);
  }
  idem_buf_deinit(&entry);
}

static void append_event(idem__session_event *event) {
  submit_entry(event, &(idem__event_head){.stream = event->stream, .last = event->last},
               event->text, event->len, on_appended);
}

void idem__http_session_add(idem__session_event *event, uint64_t stream, const char *text,
                            size_t len, bool last) {
  event->stream = stream;
  event->text = text;
  event->len = len;
  event->last = last;
  idem__http_session_busy(event->session, true);
  append_event(event);
}

void idem__session_event_forget(idem__session_event *event) {
  if (!event->pending) return;
  idem__store_forget(event->pending);
  idem__http_session_busy(event->session, false);
}

idem_status idem__session_event_write(idem_buf *out, uint64_t stream, uint32_t number,
                                      const char *text, size_t len) {
  /* Without a number there is nothing to come back to, but who is here shall have it. */
  if (!number) return idem__sse_put_event(out, "message", NULL, text, len);
  return write_event(out, stream, number, text, len);
}

/* ----------------------------------------------------------------- streams */

uint64_t idem__http_session_stream(const idem__http_session *session, uint32_t number) {
  uint64_t node = idem__node_number(session->table->opts.server);
  uint64_t place = session->table->place;
  if (!number) return 0;
  return place << IDEM__STREAM_TABLE_SHIFT | node << IDEM__STREAM_NODE_SHIFT | number;
}

static void on_begun(const idem__store_answer *answer, void *user) {
  end_adding(user, answer->status == IDEM_OK ? (uint32_t)answer->number : 0);
}

void idem__http_session_next_stream(idem__session_event *event, const char *ids, size_t len) {
  idem__http_session_busy(event->session, true);
  submit_entry(event, &(idem__event_head){.stream = IDEM__STREAM_BEGINS}, ids, len, on_begun);
}

void idem__http_session_end_stream(idem__http_session *session, uint64_t stream, bool lost) {
  uint32_t last = lost ? IDEM__STREAM_LOST : 1;
  append(session, &(idem__event_head){.stream = stream, .last = last}, "", 0);
}

/* ----------------------------------------------------------------- reading */

static idem_status write_shown(idem__session_reading *reading, const idem__event_head *head,
                               const idem__store_item *item) {
  const char *text = item->bytes + sizeof *head;
  size_t len = item->len - sizeof *head;
  if (!len) return IDEM_OK; /* the stream ends without an answer */
  if (reading->shows && !reading->shows(text, len, reading->user)) return IDEM_OK;
  return write_event(&reading->events, head->stream, (uint32_t)item->number, text, len);
}

static bool show_event(const idem__store_item *item, void *user) {
  idem__session_reading *reading = user;
  idem__event_head head;
  if (!idem__event_read(item, &head) || head.stream != reading->stream) return true;
  if (write_shown(reading, &head, item) != IDEM_OK) return false;
  reading->after = (uint32_t)item->number;
  reading->last = head.last != 0;
  return !reading->last;
}

static void on_read(const idem__store_answer *answer, void *user) {
  idem__session_reading *reading = user;
  reading->newest = (uint32_t)answer->number;
  reading->read(answer->status, reading->user);
}

void idem__http_session_read(idem__session_reading *reading) {
  idem__http_session *session = reading->session;
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_READ);
  op.after = reading->after;
  op.each = reading->newest_alone ? NULL : show_event;
  op.done = on_read;
  op.user = reading;
  reading->last = false;
  idem__store_submit(session->table->store, reading->queue, &op, &reading->pending);
}

/* ------------------------------------------------------------ notifications */

#define HANDFUL 32 /* sessions that are looked at under the lock of all */

typedef struct handful {
  idem__http_session *sessions[HANDFUL];
  size_t count;
} handful;

/* One of all nodes tells a session: where it listens, or listened last. */
bool idem__http_session_is_told_here(const idem__http_session *session) {
  const char *listener = session->legacy.listener;
  const idem_server *server = session->table->opts.server;
  return !idem__node_number(server) || !listener[0] || idem__node_is_own(server, listener);
}

bool idem__http_session_takes(idem__http_session *session, const idem__mcp_news *news) {
  if (!idem__http_session_is_told_here(session)) return false;
  bool wanted = idem__session_wants(&session->legacy, news);
  if (!wanted && session->unsure) session->missed = true;
  return wanted;
}

static bool misses(idem__http_session *session, const idem__mcp_news *news) {
  if (!session->had_stream || session->get_streams) return false;
  bool for_all = !news->uri && !news->session && news->level < 0;
  return for_all ? idem__http_session_is_told_here(session)
                 : idem__http_session_takes(session, news);
}

/* Looks at a handful of sessions, from the mark on, and moves the mark behind them; true: there are
 * more. Those that miss a notification are counted: the lock is not held while it is kept. */
static bool gather(idem__session_table *table, idem_list *mark, const idem__mcp_news *news,
                   handful *found) {
  idem__session_table_lock(table);
  idem_list *at = mark->next;
  idem_list_remove(mark);
  found->count = 0;
  for (size_t i = 0; i < HANDFUL && at != &table->sessions; i++, at = at->next) {
    idem__http_session *session = IDEM_CONTAINER(at, idem__http_session, link);
    if (!misses(session, news)) continue;
    idem__http_session_hold(session);
    found->sessions[found->count++] = session;
  }
  bool more = at != &table->sessions;
  if (more) idem_list_append(at, mark);
  idem__session_table_unlock(table);
  return more;
}

/* The mark stands in the list of sessions as one that misses nothing. */
static void keep_for_all(idem__session_table *table, const idem__mcp_news *news, const char *text,
                         size_t len) {
  idem__http_session mark = {.table = table}; /* which never had a stream */
  idem__event_head head = {.stream = 0};
  handful found;
  idem__session_table_lock(table);
  idem_list_append(table->sessions.next, &mark.link);
  idem__session_table_unlock(table);
  for (bool more = true; more;) {
    more = gather(table, &mark.link, news, &found);
    for (size_t i = 0; i < found.count; i++) {
      append(found.sessions[i], &head, text, len);
      idem__http_session_unref(found.sessions[i]);
    }
  }
}

void idem__session_table_keep_notification(idem__mcp_endpoint *endpoint, const idem__mcp_news *news,
                                           const char *text, size_t len) {
  idem__session_table *table = endpoint->table;
  /* Every endpoint hears of a change; one keeps it for those who are away. */
  idem__session_table_lock(table);
  bool first = table->endpoints.next == &endpoint->link;
  idem__session_table_unlock(table);
  if (!first) return;
  keep_for_all(table, news, text, len);
}
