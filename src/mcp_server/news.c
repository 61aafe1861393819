/* news.c - what legacy sessions are told outside their requests. Whoever has news says which sessions it is
 * for; each worker tells its own, line peers at once, those of HTTP through its subscribers. */
#include "news.h"
#include "notify.h"
#include "scope.h"
#include "server.h"
#include "session.h"
#include "worker.h"

#include <string.h>

#define WAITING_MAX 1000u
#define WAITING_BYTES ((size_t)4 << 20)

/* --------------------------------------------------------------- for whom */

static bool level_wanted(const idem__mcp_session *session, int level) {
  int wanted = atomic_load(&session->log_level);
  return level >= (wanted < 0 ? (int)IDEM_MCP_INFO : wanted);
}

bool idem__session_wants(const idem__mcp_session *session, const idem__mcp_news *news) {
  if (news->uri) return idem__session_subscribed(session, news->uri);
  if (news->session) return session->name && strcmp(session->name, news->session) == 0;
  if (news->level >= 0) return level_wanted(session, news->level);
  return atomic_load(&session->initialized);
}

/* ---------------------------------------------------------------- telling */

idem_status idem__updated_params(idem_buf *out, const char *uri) {
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "uri", uri);
  idem__write_object_end(&writer);
  return writer.status;
}

static void tell_line_peers(idem__mcp_worker *worker, const idem__mcp_news *news) {
  for (idem_list *at = worker->peers.next; at != &worker->peers;) {
    idem__mcp_peer *peer = IDEM_CONTAINER(at, idem__mcp_peer, link);
    at = at->next;
    if (!peer->session || !idem__session_wants(peer->session, news)) continue;
    if (news->uri && !idem__scope_may_hear(worker, peer->grant, news->uri)) continue;
    if (news->params)
      idem__notify_own(peer->conn, news->method, news->params, news->len);
    else
      idem_notify(peer->conn, news->method, NULL);
  }
}

void idem__worker_tell(idem__mcp_worker *worker, const idem__mcp_news *news) {
  tell_line_peers(worker, news);
  for (idem_list *at = worker->subscribers.next; at != &worker->subscribers; at = at->next) {
    idem__mcp_subscriber *subscriber = IDEM_CONTAINER(at, idem__mcp_subscriber, link);
    subscriber->on_news(subscriber, news);
  }
}

/* --------------------------------------------------------------- reminding */

/* What stands at this place in the map of its subscriptions; false: that has not so many. */
static bool remind_peer(idem__mcp_worker *worker, const idem__mcp_peer *peer, size_t place) {
  const idem_map *subscriptions = &peer->session->subscriptions;
  if (place >= subscriptions->cap) return false;
  const char *uri = subscriptions->slots[place].value;
  if (!uri || !idem__scope_may_hear(worker, peer->grant, uri)) return true;
  idem_buf params;
  idem_buf_init(&params, &worker->alloc, (size_t)1 << 20);
  if (idem__updated_params(&params, uri) == IDEM_OK)
    idem__notify_own(peer->conn, "notifications/resources/updated", params.data, params.len);
  idem_buf_deinit(&params);
  return true;
}

static bool remind_line_peers(idem__mcp_worker *worker, size_t place) {
  bool more = false;
  for (idem_list *at = worker->peers.next; at != &worker->peers;) {
    const idem__mcp_peer *peer = IDEM_CONTAINER(at, idem__mcp_peer, link);
    at = at->next;
    if (peer->session) more |= remind_peer(worker, peer, place);
  }
  return more;
}

/* Each is told one thing at a time, for who is told may go. */
void idem__worker_remind(idem__mcp_worker *worker) {
  unsigned aways = atomic_load(&worker->server->node.aways);
  if (worker->aways == aways) return;
  worker->aways = aways;
  bool more = true;
  for (size_t place = 0; more; place++) {
    more = remind_line_peers(worker, place);
    more |= idem__listeners_remind(worker, place);
  }
}

/* ---------------------------------------------------------------- waiting */

/* News on its way to another thread. Its texts follow; the method is a literal. */
typedef struct idem__waiting_news {
  struct idem__waiting_news *next;
  idem__mcp_news news;
  size_t bytes;
  char text[];
} waiting_news;

static waiting_news *copy_news(idem__mcp_worker *worker, const idem__mcp_news *news) {
  size_t name = news->session ? strlen(news->session) + 1 : 0;
  waiting_news *copy = idem__malloc(&worker->alloc, sizeof *copy + name + news->len);
  if (!copy) return NULL;
  *copy = (waiting_news){.news = *news, .bytes = name + news->len};
  if (name) copy->news.session = memcpy(copy->text, news->session, name);
  if (news->len) copy->news.params = memcpy(copy->text + name, news->params, news->len);
  return copy;
}

/* With the server's lock held. */
static idem_status leave_news(idem__mcp_worker *worker, const idem__mcp_news *news) {
  if (worker->waiting_news >= WAITING_MAX || news->len > WAITING_BYTES - worker->waiting_bytes)
    return IDEM_E_LIMIT;
  waiting_news *copy = copy_news(worker, news);
  if (!copy) return IDEM_E_NOMEM;
  *worker->news_end = copy;
  worker->news_end = &copy->next;
  worker->waiting_news++;
  worker->waiting_bytes += copy->bytes;
  return IDEM_OK;
}

idem_status idem__server_tell(idem_server *server, const idem__mcp_news *news) {
  idem_status status = IDEM_OK;
  idem__server_lock(server);
  for (idem_list *at = server->workers.next; at != &server->workers; at = at->next) {
    idem_status one = leave_news(IDEM_CONTAINER(at, idem__mcp_worker, link), news);
    if (one != IDEM_OK) status = one;
  }
  idem__server_unlock(server);
  idem__server_wake(server);
  return status;
}

static waiting_news *take_waiting(idem__mcp_worker *worker) {
  idem__server_lock(worker->server);
  waiting_news *waiting = worker->news;
  worker->news = NULL;
  worker->news_end = &worker->news;
  worker->waiting_news = 0;
  worker->waiting_bytes = 0;
  idem__server_unlock(worker->server);
  return waiting;
}

void idem__worker_tell_waiting(idem__mcp_worker *worker) {
  for (waiting_news *next, *at = take_waiting(worker); at; at = next) {
    next = at->next;
    idem__worker_tell(worker, &at->news);
    idem__free(&worker->alloc, at);
  }
}

void idem__worker_forget_news(idem__mcp_worker *worker) {
  for (waiting_news *next, *at = take_waiting(worker); at; at = next) {
    next = at->next;
    idem__free(&worker->alloc, at);
  }
}

/* -------------------------------------------------------------- log lines */

idem_status idem_server_log(idem_server *server, idem_mcp_level level, const char *logger,
                            const char *json, size_t len) {
  idem_buf params;
  if (server->opts.no_logging) return IDEM_OK;
  idem_buf_init(&params, &server->alloc, WAITING_BYTES);
  idem_status status = idem__log_params(&params, level, logger, json, len);
  idem__mcp_news news = {.method = "notifications/message",
                         .params = params.data,
                         .len = params.len,
                         .level = (int)level};
  if (status == IDEM_OK) status = idem__server_tell(server, &news);
  idem_buf_deinit(&params);
  return status;
}
