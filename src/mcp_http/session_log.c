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
static uint32_t append(idem__kept_session *session, const event_head *head, const char *text,
                       size_t len) {
  idem__buf entry;
  idem__store_op op = idem__kept_op(session, IDEM__STORE_APPEND);
  idem__buf_init(&entry, &session->shop->alloc, SIZE_MAX / 4);
  idem_status status = idem__buf_put(&entry, head, sizeof *head);
  if (status == IDEM_OK) status = idem__buf_put(&entry, text, len);
  op.bytes = entry.data;
  op.len = entry.len;
  op.limit = session->shop->opts.log_bytes;
  idem__store_answer answer = {.status = status};
  idem__kept_busy(session, true);
  if (status == IDEM_OK) answer = idem__store_ask(session->shop->store, &op, NULL);
  idem__kept_busy(session, false);
  idem__buf_deinit(&entry);
  return (uint32_t)answer.number;
}

idem_status idem__kept_event_add(idem__kept_session *session, uint32_t stream, const char *text,
                                 size_t len, bool last, idem__buf *out) {
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

bool idem__kept_events_after(idem__kept_session *session, uint32_t stream, uint32_t *after,
                             idem__buf *out) {
  reader reading = {.stream = stream, .after = after, .out = out};
  idem__store_op op = idem__kept_op(session, IDEM__STORE_READ);
  op.after = *after;
  op.each = show_event;
  op.user = &reading;
  idem__store_ask(session->shop->store, &op, NULL);
  return reading.last;
}

uint32_t idem__kept_sequence(idem__kept_session *session) {
  idem__store_op op = idem__kept_op(session, IDEM__STORE_READ);
  return (uint32_t)idem__store_ask(session->shop->store, &op, NULL).number;
}

uint32_t idem__kept_next_stream(idem__kept_session *session) {
  idem__store_op op = idem__kept_op(session, IDEM__STORE_COUNT);
  op.after = 1;
  idem__store_answer answer = idem__store_ask(session->shop->store, &op, NULL);
  return answer.status == IDEM_OK ? (uint32_t)answer.number + 1 : 0;
}

/* ------------------------------------------------------------ notifications */

static bool misses(const idem__kept_session *session, const char *uri) {
  if (!session->had_stream || session->get_streams) return false;
  return !uri || idem__session_subscribed(&session->legacy, uri);
}

/* Those that miss a notification, counted, so that the lock need not be held while it is kept. */
static idem__kept_session **gather(idem__mcp_shop *shop, const char *uri, size_t *count) {
  idem__kept_session **found = NULL;
  size_t cap = 0;
  *count = 0;
  idem__shop_lock(shop);
  for (idem__list *at = shop->sessions.next; at != &shop->sessions; at = at->next) {
    idem__kept_session *session = IDEM__CONTAINER(at, idem__kept_session, link);
    if (!misses(session, uri)) continue;
    if (*count == cap) {
      size_t more = cap ? cap * 2 : 16;
      void *grown = idem__realloc(&shop->alloc, found, cap * sizeof(idem__kept_session *),
                                  more * sizeof(idem__kept_session *));
      if (!grown) break; /* it is a hint: some miss it */
      found = grown;
      cap = more;
    }
    session->refs++;
    found[(*count)++] = session;
  }
  idem__shop_unlock(shop);
  return found;
}

void idem__shop_keep_notification(idem__mcp_desk *desk, const char *uri, const char *text,
                                  size_t len) {
  idem__mcp_shop *shop = desk->shop;
  size_t count;
  /* Every desk hears of a change; one keeps it for those who are away. */
  idem__shop_lock(shop);
  bool first = shop->desks.next == &desk->link;
  idem__shop_unlock(shop);
  if (!first) return;
  idem__kept_session **missing = gather(shop, uri, &count);
  for (size_t i = 0; i < count; i++) {
    event_head head = {.stream = 0};
    append(missing[i], &head, text, len);
    idem__kept_unref(missing[i]);
  }
  idem__free(&shop->alloc, missing);
}
