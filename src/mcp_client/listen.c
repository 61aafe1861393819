/* listen.c - hearing of changes: subscriptions/listen in 2026-07-28, begun again where its stream breaks, and
 * resources/subscribe for each URI before. One call for the program, whichever it is.
 * See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

#define AGAIN_MS 1000
#define AGAIN_MOST_MS 30000
#define AGAIN_MOST 10 /* in a row, without having begun */

typedef struct listening {
  void (*on_begin)(idem_mcp_client *client, uint64_t call, yyjson_val *honoured, void *user);
  char **uris; /* before 2026-07-28: subscribed to one after the other */
  size_t uri_count, subscribed;
  unsigned failures;
  bool ended; /* the server said so */
} listening;

void idem__mcp_listen_free(idem__mcp_call *call) {
  const idem_alloc *alloc = &call->client->alloc;
  listening *self = call->listening;
  for (size_t i = 0; i < self->uri_count; i++) idem__free(alloc, self->uris[i]);
  idem__free(alloc, self->uris);
  idem__free(alloc, self);
  call->listening = NULL;
}

static void begun(idem__mcp_call *call, yyjson_val *honoured) {
  listening *self = call->listening;
  self->failures = 0;
  if (self->on_begin) self->on_begin(call->client, call->handle, honoured, call->user);
}

/* ------------------------------------------------------------------ 2026-07-28 */

static void write_texts(idem__writer *out, const char *key, const char *const *texts) {
  if (!texts || !*texts) return;
  idem__write_key(out, key);
  idem__write_array(out);
  for (; *texts; texts++) idem__write_text(out, *texts);
  idem__write_array_end(out);
}

static void write_wishes(idem__writer *out, const idem_mcp_listening *what) {
  idem__write_key(out, "notifications");
  idem__write_object(out);
  if (what->tools) idem__write_member_bool(out, "toolsListChanged", true);
  if (what->prompts) idem__write_member_bool(out, "promptsListChanged", true);
  if (what->resources) idem__write_member_bool(out, "resourcesListChanged", true);
  write_texts(out, "resourceSubscriptions", what->uris);
  write_texts(out, "taskIds", what->tasks);
  idem__write_object_end(out);
}

void idem__mcp_listen_begun(idem_mcp_client *client, yyjson_val *params) {
  yyjson_val *meta = yyjson_obj_get(params, "_meta");
  yyjson_val *id = yyjson_obj_get(meta, "io.modelcontextprotocol/subscriptionId");
  int64_t number;
  idem__mcp_call *call = idem__json_get_int(id, &number) && number > 0
                             ? idem__mcp_call_of(client, (uint64_t)number)
                             : NULL;
  if (call && call->kind == IDEM__MCP_LISTEN)
    begun(call, yyjson_obj_get(params, "notifications"));
  else
    idem__mcp_client_problem(client, "a subscription begins that nobody asked for", NULL);
}

static void again(idem__mcp_call *call) {
  idem_status status = idem__mcp_call_send(call);
  if (status != IDEM_OK) idem__mcp_call_fail(call, status, "the subscription could not be renewed");
}

static bool may_go_on(idem__mcp_call *call, const idem_response *response) {
  const idem_mcp_client *client = call->client;
  listening *self = call->listening;
  bool broken = response->status == IDEM_E_CLOSED || response->status == IDEM_E_PROTO ||
                response->status == IDEM_E_SYS || response->status == IDEM_E_TIMEOUT;
  return broken && client->the_link->http && idem__mcp_usable(client) &&
         !idem__conn_closed(client->conn) && self->failures++ < AGAIN_MOST;
}

void idem__mcp_listen_over(idem__mcp_call *call) {
  listening *self = call->listening;
  self->ended = true;
  if (call->asked) idem__call_fail(call->client->conn, call->asked, IDEM_E_CLOSED, "");
}

/* ---------------------------------------------------------------------- before */

static void begin_now(idem__mcp_call *call) {
  call->stage = IDEM__MCP_WAITING;
  idem__mcp_call_arm(call);
  begun(call, NULL);
}

static idem_status subscribe_next(idem__mcp_call *call) {
  listening *self = call->listening;
  const char *uri = self->uris[self->subscribed];
  idem_buf params;
  idem_buf_init(&params, &call->client->alloc, (size_t)1 << 20);
  idem_status status = idem_buf_puts(&params, "\"uri\":");
  if (status == IDEM_OK) status = idem_text_json_string(&params, uri, strlen(uri));
  if (status == IDEM_OK)
    status = idem__mcp_call_send_other(call, &idem__mcp_methods[IDEM__METHOD_SUBSCRIBE],
                                       params.data, params.len);
  idem_buf_deinit(&params);
  return status;
}

void idem__mcp_listen_leave(idem__mcp_call *call) {
  const listening *self = call->listening;
  idem_mcp_client *client = call->client;
  if (!idem__mcp_usable(client) || idem__mcp_modern(client)) return;
  for (size_t i = 0; i < self->subscribed && i < self->uri_count; i++) {
    /* Without room or memory for it the server goes on telling, and nobody minds. */
    (void)idem_mcp_unsubscribe(client, self->uris[i], NULL, NULL, NULL, NULL);
  }
}

static bool subscribed(idem__mcp_call *call) {
  listening *self = call->listening;
  if (++self->subscribed >= self->uri_count) {
    begin_now(call);
    return true;
  }
  idem_status status = subscribe_next(call);
  if (status != IDEM_OK) idem__mcp_call_fail(call, status, NULL);
  return true;
}

bool idem__mcp_listen_answered(idem__mcp_call *call, const idem_response *response) {
  const listening *self = call->listening;
  if (self->ended || (response->status == IDEM_OK && idem__mcp_modern(call->client))) {
    idem_mcp_result end = {.result = response->result};
    idem__mcp_call_end(call, &end);
    return true;
  }
  if (response->status == IDEM_OK) {
    call->was_sent = true;
    return subscribed(call);
  }
  if (!may_go_on(call, response)) return false;
  uint64_t wait = (uint64_t)AGAIN_MS * self->failures;
  idem__mcp_call_pause(call, wait < AGAIN_MOST_MS ? wait : AGAIN_MOST_MS, again);
  return true;
}

/* -------------------------------------------------------------------- the start */

static idem_status copy_uris(idem_mcp_client *client, listening *self, const char *const *uris) {
  size_t count = 0;
  while (uris && uris[count]) count++;
  if (!count || idem__mcp_modern(client)) return IDEM_OK;
  if (count > client->opts.max_items) return IDEM_E_LIMIT;
  self->uris = idem__calloc(&client->alloc, count * sizeof *self->uris);
  if (!self->uris) return IDEM_E_NOMEM;
  for (size_t i = 0; i < count; i++) {
    self->uris[i] = idem__strndup(&client->alloc, uris[i], strlen(uris[i]));
    self->uri_count++;
    if (!self->uris[i]) return IDEM_E_NOMEM;
  }
  return IDEM_OK;
}

static idem_status begin(idem__mcp_call *call) {
  const listening *self = call->listening;
  call->idle_ms = UINT64_MAX;
  if (idem__mcp_modern(call->client)) return idem__mcp_call_send(call);
  if (self->uri_count) return subscribe_next(call);
  idem__mcp_call_pause(call, 0, begin_now);
  return IDEM_OK;
}

idem_status idem_mcp_listen(idem_mcp_client *client, const idem_mcp_listening *what,
                            const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                            uint64_t *handle) {
  if (!idem__mcp_usable(client)) return client->told_ready ? IDEM_E_CLOSED : IDEM_E_STATE;
  idem_buf params;
  idem_buf_init(&params, &client->alloc, (size_t)16 << 20);
  idem__writer out = idem__writer_on(&params);
  write_wishes(&out, what);
  idem__mcp_call *call = NULL;
  idem__mcp_ask ask = {.kind = IDEM__MCP_LISTEN,
                       .row = &idem__mcp_methods[IDEM__METHOD_LISTEN],
                       .params = params.data,
                       .params_len = params.len,
                       .opts = opts,
                       .fn = fn,
                       .user = user};
  idem_status status = out.status;
  if (status == IDEM_OK) status = idem__mcp_call_make(client, &ask, &call);
  idem_buf_deinit(&params);
  if (status != IDEM_OK) return status;
  listening *self = call->listening = idem__calloc(&client->alloc, sizeof *self);
  status = self ? copy_uris(client, self, what->uris) : IDEM_E_NOMEM;
  if (self) self->on_begin = what->on_begin;
  if (status == IDEM_OK) status = begin(call);
  if (status != IDEM_OK)
    idem__mcp_call_drop(call);
  else if (handle)
    *handle = call->handle;
  return status;
}
