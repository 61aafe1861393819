/* remind.c - a session for which nobody has kept what happened for a while: it listened at a node that has died, or its
 * record was being read. It is told of everything that may have changed: these notifications say no more than "look
 * again", and one too many costs a question. Whether that node has died may be seen only when its lease is over. See docs/internals/mcp_http.md. */
#include "mcp_http.h"

#include <string.h>

#define TEXT_BYTES ((size_t)64 << 10) /* of one notification: a URI has 8 KiB */
#define URIS_BYTES ((size_t)64 << 20) /* as many as a record holds */
#define LEASE 10u /* renewals of our record: longer than a lease, however soon they come */

static void keep(idem__http_session *session, const idem__mcp_news *news) {
  idem_buf text;
  idem_buf_init(&text, &session->table->alloc, TEXT_BYTES);
  if (idem__news_write(&text, news) == IDEM_OK)
    idem__http_session_keep(session, text.data, text.len);
  idem_buf_deinit(&text);
}

static void remind_of_lists(idem__http_session *session) {
  static const struct {
    idem__capability capability;
    const char *method;
  } lists[] = {{IDEM__CAP_TOOLS, "notifications/tools/list_changed"},
               {IDEM__CAP_PROMPTS, "notifications/prompts/list_changed"},
               {IDEM__CAP_RESOURCES, "notifications/resources/list_changed"}};
  idem_server *server = session->table->opts.server;
  idem__server_lock(server);
  idem__registry *registry = server->registry;
  atomic_fetch_add_explicit(&registry->refs, 1, memory_order_relaxed);
  idem__server_unlock(server);
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (idem__server_offers(server, registry, lists[i].capability))
      keep(session, &(idem__mcp_news){.method = lists[i].method, .level = -1});
  idem__registry_unref(registry);
}

static void remind_of_resource(idem__http_session *session, const char *uri) {
  idem_buf params;
  idem_buf_init(&params, &session->table->alloc, TEXT_BYTES);
  if (idem__updated_params(&params, uri) == IDEM_OK)
    keep(session, &(idem__mcp_news){.method = "notifications/resources/updated",
                                    .params = params.data,
                                    .len = params.len,
                                    .level = -1});
  idem_buf_deinit(&params);
}

/* Copied, since nothing is kept with the lock held. */
static void remind_of_resources(idem__http_session *session) {
  idem_buf uris;
  size_t at = 0;
  idem_buf_init(&uris, &session->table->alloc, URIS_BYTES);
  idem__session_table_lock(session->table);
  for (const char *uri; (uri = idem_map_next(&session->legacy.subscriptions, &at));)
    if (idem_buf_put(&uris, uri, strlen(uri) + 1) != IDEM_OK) break;
  idem__session_table_unlock(session->table);
  for (size_t next = 0; next < uris.len; next += strlen(uris.data + next) + 1)
    remind_of_resource(session, uris.data + next);
  idem_buf_deinit(&uris);
}

void idem__http_session_remind(idem__http_session *session) {
  if (!atomic_load(&session->legacy.initialized)) return;
  remind_of_lists(session);
  remind_of_resources(session);
}

/* What the lists say is told by the nodes' records. */
void idem__http_session_remind_of_resources(idem__http_session *session) {
  idem__session_table_lock(session->table);
  bool ours = atomic_load(&session->legacy.initialized) && !session->ended &&
              idem__http_session_is_told_here(session) &&
              (session->get_streams || session->had_stream);
  idem__session_table_unlock(session->table);
  if (ours) remind_of_resources(session);
}

/* ------------------------------------------------------- a node that may have died */

/* With the lock held. Meanwhile the nodes are looked at with every renewal. */
static void enter(idem__http_session *session) {
  idem__session_table *table = session->table;
  idem_list_append(&table->doubts, &session->doubt);
  table->doubting++;
  atomic_fetch_add(&table->opts.server->node.awaited, 1);
}

void idem__http_session_trust(idem__http_session *session) {
  idem__session_table *table = session->table;
  if (idem_list_empty(&session->doubt)) return;
  idem_list_leave(&session->doubt);
  table->doubting--;
  atomic_fetch_sub(&table->opts.server->node.awaited, 1);
}

/* Of several from which it came in so short a time nobody asks which have died: it is told at the next look. In a store whose nodes need no lease who is dead has no record. */
void idem__http_session_doubt(idem__http_session *session, const char *listener) {
  const idem_server *server = session->table->opts.server;
  uint32_t number = listener[0] ? idem__node_number_of(listener) : 0;
  if (idem__node_interval_ms(server) == UINT64_MAX && number) return;
  idem__session_table_lock(session->table);
  bool other = !idem_list_empty(&session->doubt) && session->listened != number;
  idem__http_session_trust(session);
  session->listened = other ? 0 : number;
  session->doubted = atomic_load(&server->node.renewals);
  if (!session->ended) enter(session);
  idem__session_table_unlock(session->table);
}

/* The first of those that are in doubt, counted, if it is to be told; one that is not known yet goes to the end. */
static idem__http_session *next_missed(idem__session_table *table) {
  const idem_server *server = table->opts.server;
  idem__http_session *missed = NULL;
  idem__session_table_lock(table);
  if (!idem_list_empty(&table->doubts)) {
    idem__http_session *first = IDEM_CONTAINER(table->doubts.next, idem__http_session, doubt);
    bool over = atomic_load(&server->node.renewals) - first->doubted > LEASE;
    idem__http_session_trust(first);
    if (!idem__node_lives(server, first->listened))
      missed = first;
    else if (!over)
      enter(first);
    if (missed) idem__http_session_hold(missed);
  }
  idem__session_table_unlock(table);
  return missed;
}

void idem__session_table_remind(idem__session_table *table) {
  idem__session_table_lock(table);
  size_t left = table->doubting;
  idem__session_table_unlock(table);
  for (; left; left--) {
    idem__http_session *missed = next_missed(table);
    if (!missed) continue;
    idem__http_session_remind(missed);
    idem__http_session_unref(missed);
  }
}

void idem__remind_on_node(const idem__store_change *change, void *user) {
  idem__session_table *table = user;
  if (change->event != IDEM__STORE_WAS_REMOVED || change->name_len != IDEM__NODE_ID) return;
  uint32_t number = idem__node_number_of(change->name);
  idem__session_table_lock(table);
  for (idem_list *at = table->doubts.next, *next; at != &table->doubts; at = next) {
    idem__http_session *session = IDEM_CONTAINER(at, idem__http_session, doubt);
    next = at->next;
    if (session->listened == number) idem__http_session_trust(session);
  }
  idem__session_table_unlock(table);
}
