/* remind.c - a session for which nobody has kept what happened for a while: it listened at a node that has died, or its
 * record was being read. It is told of everything that may have changed: these notifications say no more than "look
 * again", and one too many costs a question. See docs/internals/mcp_http.md. */
#include "mcp_http.h"

#include <string.h>

#define TEXT_BYTES ((size_t)64 << 10) /* of one notification: a URI has 8 KiB */
#define URIS_BYTES ((size_t)64 << 20) /* as many as a record holds */

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
  idem__writer writer = idem__writer_on(&params);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "uri", uri);
  idem__write_object_end(&writer);
  if (writer.status == IDEM_OK)
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
