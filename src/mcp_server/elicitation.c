/* elicitation.c - addresses that users are asked to visit: who was asked, so that this client alone hears when it
 * is done (2025-11-25), and the error that sends a user there before anything else. */
#include "ask.h"
#include "input.h"
#include "news.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <string.h>

#define EXPECTED_MAX 10000u
#define URL_REQUIRED (-32042)

/* ------------------------------------------------------------- who was asked */

/* Found by its id; the oldest go first. Guarded by the server's lock. */
typedef struct expected {
  idem_list link;
  const char *session;
  char id[];
} expected;

static void forget(idem_server *server, expected *one) {
  idem_map_remove(&server->elicitations, one->id, strlen(one->id));
  idem_list_remove(&one->link);
  idem__free(&server->alloc, one);
}

static const char *session_of(const idem__context *context) {
  if (context->task) return context->task->session;
  const idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  return peer && peer->session ? peer->session->name : NULL;
}

static expected *new_expected(idem_server *server, const char *id, const char *session) {
  size_t len = strlen(id) + 1, name_len = strlen(session) + 1;
  expected *one = idem__malloc(&server->alloc, sizeof *one + len + name_len);
  if (!one) return NULL;
  memcpy(one->id, id, len);
  one->session = memcpy(one->id + len, session, name_len);
  idem_list_init(&one->link);
  return one;
}

/* Without memory nobody is told: clients do not count on it. */
void idem__elicitation_expect(const idem__context *context, const char *id) {
  idem_server *server = context->server;
  const char *session = session_of(context);
  expected *one = session ? new_expected(server, id, session) : NULL;
  if (!one) return;
  idem__server_lock(server);
  expected *before = idem_map_get(&server->elicitations, id, strlen(id));
  if (before) forget(server, before); /* asked once more: the last who was hears of it */
  if (server->elicitations.count >= EXPECTED_MAX)
    forget(server, IDEM_CONTAINER(server->expected.next, expected, link));
  if (idem_map_put(&server->elicitations, one->id, strlen(id), one) == IDEM_OK)
    idem_list_append(&server->expected, &one->link);
  else
    idem__free(&server->alloc, one);
  idem__server_unlock(server);
}

void idem__elicitations_free(idem_server *server) {
  while (!idem_list_empty(&server->expected))
    forget(server, IDEM_CONTAINER(server->expected.next, expected, link));
  idem_map_deinit(&server->elicitations);
}

/* ------------------------------------------------------------------ it is done */

static expected *take(idem_server *server, const char *id, size_t len) {
  idem__server_lock(server);
  expected *one = idem_map_remove(&server->elicitations, id, len);
  if (one) idem_list_remove(&one->link);
  idem__server_unlock(server);
  return one;
}

static idem_status tell(idem_server *server, const expected *one) {
  idem_buf params;
  idem_buf_init(&params, &server->alloc, (size_t)64 << 10);
  idem__writer writer = idem__writer_on(&params);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "elicitationId", one->id);
  idem__write_object_end(&writer);
  idem__mcp_news news = {.method = "notifications/elicitation/complete",
                         .params = params.data,
                         .len = params.len,
                         .session = one->session,
                         .level = -1};
  idem_status status = writer.status;
  if (status == IDEM_OK) status = idem__server_tell(server, &news);
  idem_buf_deinit(&params);
  return status;
}

idem_status idem__elicitation_complete(idem_server *server, const char *id, size_t len) {
  expected *one = take(server, id, len);
  if (!one) return IDEM_E_NOTFOUND;
  idem_status status = tell(server, one);
  idem__free(&server->alloc, one);
  return status;
}

/* Others who share the store may have asked: they are told of an id that is not ours. */
static idem_status tell_others(idem_server *server, const char *id) {
  idem_buf name;
  idem_buf_init(&name, &server->alloc, (size_t)64 << 10);
  idem_status status = idem_buf_printf(&name, "%c%s", IDEM__NEWS_ELICITATION, id);
  idem__store_op op = {.verb = IDEM__STORE_TELL, .space = IDEM__STORE_NEWS, .name = name.data};
  op.name_len = name.len;
  if (status == IDEM_OK) idem__store_run(server->store, &op);
  idem_buf_deinit(&name);
  return status == IDEM_OK ? IDEM_E_NOTFOUND : status;
}

idem_status idem_server_elicitation_complete(idem_server *server, const char *elicitation_id) {
  idem_status status = idem__elicitation_complete(server, elicitation_id, strlen(elicitation_id));
  return status == IDEM_E_NOTFOUND ? tell_others(server, elicitation_id) : status;
}

/* ----------------------------------------------------------------- go there first */

static idem_status refuse_until_visited(idem__context *context, const idem_ask *asks,
                                        size_t count) {
  idem_buf data;
  idem_buf_init(&data, &context->worker->alloc, idem__answer_bytes(context->server));
  idem__writer writer = idem__writer_on(&data);
  idem__write_object(&writer);
  idem__write_key(&writer, "elicitations");
  idem__write_array(&writer);
  for (size_t i = 0; i < count; i++) idem__ask_write_params(context, &asks[i], &writer);
  idem__write_array_end(&writer);
  idem__write_object_end(&writer);
  idem_status status = writer.status;
  char text[IDEM__CAUSE];
  const char *said = asks[0].message ? asks[0].message : "";
  const char *cause = idem__cause(context, text, "URL elicitation required: %s", said);
  if (!cause) cause = "URL elicitation required";
  idem__context_lacks(context);
  if (status == IDEM_OK)
    status = idem__reply_failure(context, URL_REQUIRED, cause, data.data, data.len);
  else
    idem_request_drop(context->request);
  idem_buf_deinit(&data);
  return status;
}

idem_status idem_requires_url(idem_request *request, const idem_ask *asks, size_t count) {
  idem__context *context = idem__context_of(request);
  bool answered = false;
  if (!idem__context_open(request)) return idem__reply_misplaced(request);
  idem_status status = idem__input_check_urls(context, asks, count, &answered);
  if (answered) return status;
  if (idem__revision_has(context->revision, IDEM__R_URL_ERROR))
    return refuse_until_visited(context, asks, count);
  return idem_needs_input(request, asks, count, NULL, 0);
}
