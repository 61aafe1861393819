/* session_log.c - the events of legacy sessions: numbered, kept in the log of the session's record, and
 * shown again to clients that come back with Last-Event-ID. */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

/* Before each event's text: its stream, and whether it is that stream's last. */
typedef struct event_head {
  uint32_t stream;
  uint32_t last;
} event_head;

static idem_status write_event(idem__buf *out, uint32_t stream, uint32_t sequence, const char *text,
                               size_t len) {
  char id[32];
  snprintf(id, sizeof id, "%x-%x", (unsigned)stream, (unsigned)sequence);
  return idem__sse_put_event(out, "message", id, text, len);
}

/* The event's number; 0: it has none, the session is gone or there is no memory. */
static uint32_t append(idem__http_session *session, const event_head *head, const char *text,
                       size_t len) {
  idem__buf entry;
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_APPEND);
  idem__buf_init(&entry, &session->table->alloc, SIZE_MAX / 4);
  idem_status status = idem__buf_put(&entry, head, sizeof *head);
  if (status == IDEM_OK) status = idem__buf_put(&entry, text, len);
  op.bytes = entry.data;
  op.len = entry.len;
  op.limit = session->table->opts.log_bytes;
  idem__store_answer answer = {.status = status};
  idem__http_session_busy(session, true);
  if (status == IDEM_OK) answer = idem__store_ask(session->table->store, &op, NULL);
  idem__http_session_busy(session, false);
  idem__buf_deinit(&entry);
  return (uint32_t)answer.number;
}

idem_status idem__http_session_event_add(idem__http_session *session, uint32_t stream,
                                         const char *text, size_t len, bool last, idem__buf *out) {
  event_head head = {.stream = stream, .last = last};
  uint32_t sequence = append(session, &head, text, len);
  if (!out) return IDEM_OK;
  /* Without a number there is nothing to come back to, but who is here shall have it. */
  if (!sequence) return idem__sse_put_event(out, "message", NULL, text, len);
  return write_event(out, stream, sequence, text, len);
}

/* ----------------------------------------------------------------- reading */

typedef struct reader {
  uint32_t stream;
  uint32_t *after;
  idem__buf *out;
  bool last;
} reader;

static bool show_event(const idem__store_item *item, void *user) {
  reader *reading = user;
  event_head head;
  if (item->len < sizeof head) return true;
  memcpy(&head, item->bytes, sizeof head);
  if (head.stream != reading->stream) return true;
  if (write_event(reading->out, head.stream, (uint32_t)item->number, item->bytes + sizeof head,
                  item->len - sizeof head) != IDEM_OK) {
    return false;
  }
  *reading->after = (uint32_t)item->number;
  reading->last = head.last != 0;
  return !reading->last;
}

bool idem__http_session_events_after(idem__http_session *session, uint32_t stream, uint32_t *after,
                                     idem__buf *out) {
  reader reading = {.stream = stream, .after = after, .out = out};
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_READ);
  op.after = *after;
  op.each = show_event;
  op.user = &reading;
  idem__store_ask(session->table->store, &op, NULL);
  return reading.last;
}

uint32_t idem__http_session_sequence(idem__http_session *session) {
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_READ);
  return (uint32_t)idem__store_ask(session->table->store, &op, NULL).number;
}

uint32_t idem__http_session_next_stream(idem__http_session *session) {
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_COUNT);
  op.after = 1;
  idem__store_answer answer = idem__store_ask(session->table->store, &op, NULL);
  return answer.status == IDEM_OK ? (uint32_t)answer.number + 1 : 0;
}

/* ------------------------------------------------------------ notifications */

#define HANDFUL 32 /* sessions that are looked at under the lock of all */

typedef struct handful {
  idem__http_session *sessions[HANDFUL];
  size_t count;
} handful;

static bool misses(const idem__http_session *session, const char *uri) {
  if (!session->had_stream || session->get_streams) return false;
  return !uri || idem__session_subscribed(&session->legacy, uri);
}

/* Looks at a handful of sessions, from the mark on, and moves the mark behind them; true: there are
 * more. Those that miss a notification are counted: the lock is not held while it is kept. */
static bool gather(idem__session_table *table, idem__list *mark, const char *uri, handful *found) {
  idem__session_table_lock(table);
  idem__list *at = mark->next;
  idem__list_remove(mark);
  found->count = 0;
  for (size_t i = 0; i < HANDFUL && at != &table->sessions; i++, at = at->next) {
    idem__http_session *session = IDEM__CONTAINER(at, idem__http_session, link);
    if (!misses(session, uri)) continue;
    idem__http_session_hold(session);
    found->sessions[found->count++] = session;
  }
  bool more = at != &table->sessions;
  if (more) idem__list_append(at, mark);
  idem__session_table_unlock(table);
  return more;
}

/* The mark stands in the list of sessions as one that misses nothing. */
static void keep_for_all(idem__session_table *table, const char *uri, const char *text,
                         size_t len) {
  idem__http_session mark = {.table = table};
  event_head head = {.stream = 0};
  handful found;
  idem__session_table_lock(table);
  idem__list_append(table->sessions.next, &mark.link);
  idem__session_table_unlock(table);
  for (bool more = true; more;) {
    more = gather(table, &mark.link, uri, &found);
    for (size_t i = 0; i < found.count; i++) {
      append(found.sessions[i], &head, text, len);
      idem__http_session_unref(found.sessions[i]);
    }
  }
}

void idem__session_table_keep_notification(idem__mcp_endpoint *endpoint, const char *uri,
                                           const char *text, size_t len) {
  idem__session_table *table = endpoint->table;
  /* Every endpoint hears of a change; one keeps it for those who are away. */
  idem__session_table_lock(table);
  bool first = table->endpoints.next == &endpoint->link;
  idem__session_table_unlock(table);
  if (!first) return;
  keep_for_all(table, uri, text, len);
}
