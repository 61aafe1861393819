/* subscribe.c - who wants to know of changes: resources/subscribe of legacy sessions, and
 * subscriptions/listen of 2026-07-28, a request that stays open and carries its notifications. */
#include "input.h"
#include "notify.h"
#include "result.h"
#include "scope.h"
#include "server.h"
#include "session.h"
#include "task.h"
#include "wait.h"

#include <stdio.h>
#include <string.h>

#define META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

/* ------------------------------------------------------------------- legacy */

static yyjson_val *uri_param(idem__context *context, yyjson_val *params) {
  yyjson_val *uri = params ? yyjson_obj_get(params, "uri") : NULL;
  if (yyjson_is_str(uri)) return uri;
  idem__reply_bad_param(context, "uri", "string", uri);
  return NULL;
}

static void refuse_subscription(idem__context *context) {
  idem_reply_fault(context->request, IDEM_FAULT_SUBSCRIPTION, NULL);
}

static void change(idem__context *context, idem__session_change_kind kind, yyjson_val *uri,
                   idem__wait_fn changed) {
  idem__session_change wanted = {
      .kind = kind, .uri = yyjson_get_str(uri), .uri_len = yyjson_get_len(uri)};
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  if (!peer->session) {
    changed(context, IDEM_E_STATE, NULL);
    return;
  }
  idem__wait *wait = idem__wait_begin(context, changed, NULL);
  if (!wait) return;
  idem__session_change_for(peer, &wanted, idem__wait_end, wait);
  idem__wait_keep(wait);
}

static void on_subscribed(idem__context *context, idem_status status, void *user) {
  (void)user;
  if (status == IDEM_OK)
    idem__reply_text(context, "{}", 2);
  else if (idem__is_unknown(status))
    idem__refuse_unavailable(context);
  else
    refuse_subscription(context);
}

static void on_unsubscribed(idem__context *context, idem_status status, void *user) {
  (void)user;
  if (idem__is_unknown(status))
    idem__refuse_unavailable(context);
  else
    idem__reply_text(context, "{}", 2);
}

/* One that scopes may keep from the caller; NULL: there is none. */
static const idem__resource_entry *resource_of(const idem__context *context, const char *uri,
                                               size_t len) {
  return context->grant ? idem__registry_resource(context->lists->registry, uri, len) : NULL;
}

void idem__run_subscribe(idem__context *context, yyjson_val *params) {
  yyjson_val *uri = uri_param(context, params);
  const idem__resource_entry *resource =
      uri ? resource_of(context, yyjson_get_str(uri), yyjson_get_len(uri)) : NULL;
  if (resource && !idem__scope_admit(context, &resource->head)) return;
  if (uri) change(context, IDEM__SESSION_SUBSCRIBE, uri, on_subscribed);
}

void idem__run_unsubscribe(idem__context *context, yyjson_val *params) {
  yyjson_val *uri = uri_param(context, params);
  if (uri) change(context, IDEM__SESSION_UNSUBSCRIBE, uri, on_unsubscribed);
}

/* ------------------------------------------------------------------- listen */

/* One open subscriptions/listen. Lives in its request's memory. */
typedef struct listener {
  idem_list link; /* in worker->listeners */
  idem__context *context;
  uint32_t kinds;        /* bits of idem__list_kind */
  yyjson_val *resources; /* array of uris, or NULL */
  yyjson_val *tasks;     /* array of task ids, or NULL */
} listener;

static void write_subscription(const listener *who, idem__writer *writer) {
  const idem__id *id = idem__request_id(who->context->request);
  idem__write_key(writer, "_meta");
  idem__write_object(writer);
  idem__write_key(writer, META_SUBSCRIPTION);
  idem__write_raw(writer, id->raw, id->raw_len);
  idem__write_object_end(writer);
}

static void notify(listener *who, const char *method, const char *uri) {
  idem_buf params;
  idem_buf_init(&params, &who->context->worker->alloc, (size_t)1 << 20);
  idem__writer writer = idem__writer_on(&params);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "uri", uri);
  write_subscription(who, &writer);
  idem__write_object_end(&writer);
  if (writer.status == IDEM_OK)
    idem__notify_text(idem_request_conn(who->context->request), method, &params);
  idem_buf_deinit(&params);
}

static bool names(yyjson_val *list, const char *text) {
  yyjson_arr_iter iter;
  if (!yyjson_arr_iter_init(list, &iter)) return false;
  for (yyjson_val *each; (each = yyjson_arr_iter_next(&iter));) {
    if (yyjson_equals_str(each, text)) return true;
  }
  return false;
}

static const char *changed_method(uint32_t kind) {
  if (kind == 1u << IDEM__TOOLS) return "notifications/tools/list_changed";
  if (kind == 1u << IDEM__PROMPTS) return "notifications/prompts/list_changed";
  return "notifications/resources/list_changed";
}

static bool may_know(const listener *who, const char *uri) {
  return idem__scope_may_hear(who->context->worker, who->context->grant, uri);
}

void idem__listeners_tell(idem__mcp_worker *worker, uint32_t changed, const char *updated_uri) {
  for (idem_list *at = worker->listeners.next; at != &worker->listeners;) {
    listener *who = IDEM_CONTAINER(at, listener, link);
    at = at->next;
    if (changed & who->kinds) notify(who, changed_method(changed), NULL);
    if (updated_uri && names(who->resources, updated_uri) && may_know(who, updated_uri)) {
      notify(who, "notifications/resources/updated", updated_uri);
    }
  }
}

bool idem__listeners_remind(idem__mcp_worker *worker, size_t which) {
  bool more = false;
  for (idem_list *at = worker->listeners.next; at != &worker->listeners;) {
    listener *who = IDEM_CONTAINER(at, listener, link);
    at = at->next;
    const char *uri = yyjson_get_str(yyjson_arr_get(who->resources, which));
    more |= uri != NULL;
    if (uri && may_know(who, uri)) notify(who, "notifications/resources/updated", uri);
  }
  return more;
}

void idem__listeners_task(idem__mcp_worker *worker, const idem__task *task, const char *task_json,
                          size_t len) {
  for (idem_list *at = worker->listeners.next; at != &worker->listeners;) {
    listener *who = IDEM_CONTAINER(at, listener, link);
    at = at->next;
    if (!names(who->tasks, task->id)) continue;
    /* An id alone opens nothing: it is its principal's task. */
    if (strcmp(who->context->principal, task->principal) != 0) continue;
    idem_buf params;
    idem_buf_init(&params, &worker->alloc, (size_t)16 << 20);
    idem__writer writer = idem__writer_on(&params);
    /* The task's members and ours in one object. */
    idem__write_raw(&writer, task_json, len - 1);
    write_subscription(who, &writer);
    idem__write_object_end(&writer);
    if (writer.status == IDEM_OK) {
      idem__notify_text(idem_request_conn(who->context->request), "notifications/tasks", &params);
    }
    idem_buf_deinit(&params);
  }
}

static void stop_listening(listener *who) {
  idem_list_remove(&who->link);
  if (who->tasks) atomic_fetch_sub(&who->context->server->listening, 1);
}

/* The closing result; on a line the cancellation says it once more, for clients that wait for it. */
static void close_listener(listener *who) {
  idem__context *context = who->context;
  idem_conn *conn = idem_request_conn(context->request);
  idem__mcp_peer *peer = idem__mcp_peer_of(conn);
  idem__id id = *idem__request_id(context->request);
  char raw[64];
  bool tell = peer && !peer->edge && id.raw_len < sizeof raw;
  if (tell) memcpy(raw, id.raw, id.raw_len);
  stop_listening(who);
  yyjson_mut_doc *doc = idem_request_doc(context->request);
  yyjson_mut_val *meta = yyjson_mut_obj(doc);
  yyjson_mut_val *value = yyjson_mut_rawncpy(doc, id.raw, id.raw_len);
  yyjson_mut_obj_add_val(doc, meta, META_SUBSCRIPTION, value);
  idem__result result;
  idem__result_begin(&result, context, "complete");
  idem__result_end(&result, meta);
  if (!tell) return;
  char params[96];
  idem_buf buf;
  idem_buf_fixed(&buf, params, sizeof params);
  if (idem_buf_printf(&buf, "{\"requestId\":%.*s}", (int)id.raw_len, raw) == IDEM_OK) {
    idem__notify_text(conn, "notifications/cancelled", &buf);
  }
}

void idem__listeners_close(idem__mcp_worker *worker) {
  while (!idem_list_empty(&worker->listeners)) {
    close_listener(IDEM_CONTAINER(worker->listeners.next, listener, link));
  }
}

/* Each answer may end what it goes to, and with it others of the list. */
void idem__listeners_end(idem__mcp_worker *worker, const idem_conn *conn) {
  idem_list others;
  idem_list_init(&others);
  while (!idem_list_empty(&worker->listeners)) {
    listener *who = IDEM_CONTAINER(worker->listeners.next, listener, link);
    if (idem_request_conn(who->context->request) == conn) {
      close_listener(who);
    } else {
      idem_list_remove(&who->link);
      idem_list_append(&others, &who->link);
    }
  }
  while (!idem_list_empty(&others)) {
    idem_list *link = others.next;
    idem_list_remove(link);
    idem_list_append(&worker->listeners, link);
  }
}

static void on_listener_gone(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  listener *who = user;
  stop_listening(who);
  idem_request_drop(request);
}

/* What was asked for and is on offer. */
static uint32_t honoured_kinds(idem__context *context, yyjson_val *wanted) {
  static const struct {
    const char *key;
    idem__list_kind kind;
    idem__capability capability;
  } rows[] = {
      {"toolsListChanged", IDEM__TOOLS, IDEM__CAP_TOOLS},
      {"promptsListChanged", IDEM__PROMPTS, IDEM__CAP_PROMPTS},
      {"resourcesListChanged", IDEM__RESOURCES, IDEM__CAP_RESOURCES},
  };
  uint32_t kinds = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    bool offered =
        idem__server_offers(context->server, context->lists->registry, rows[i].capability);
    if (offered && yyjson_is_true(yyjson_obj_get(wanted, rows[i].key))) {
      kinds |= 1u << rows[i].kind;
    }
  }
  return kinds;
}

/* What the token does not reach is not honoured, and so not acknowledged. */
static void write_resources(const listener *who, idem__writer *writer) {
  yyjson_arr_iter iter;
  if (!who->resources) return;
  idem__write_key(writer, "resourceSubscriptions");
  idem__write_array(writer);
  yyjson_arr_iter_init(who->resources, &iter);
  for (yyjson_val *each; (each = yyjson_arr_iter_next(&iter));)
    if (may_know(who, yyjson_get_str(each))) idem__write_value(writer, each);
  idem__write_array_end(writer);
}

static void acknowledge(listener *who) {
  idem__context *context = who->context;
  idem_buf params;
  idem_buf_init(&params, &context->worker->alloc, (size_t)1 << 20);
  idem__writer writer = idem__writer_on(&params);
  idem__write_object(&writer);
  idem__write_key(&writer, "notifications");
  idem__write_object(&writer);
  if (who->kinds & 1u << IDEM__TOOLS) idem__write_member_bool(&writer, "toolsListChanged", true);
  if (who->kinds & 1u << IDEM__PROMPTS) {
    idem__write_member_bool(&writer, "promptsListChanged", true);
  }
  if (who->kinds & 1u << IDEM__RESOURCES) {
    idem__write_member_bool(&writer, "resourcesListChanged", true);
  }
  write_resources(who, &writer);
  idem__write_member_value(&writer, "taskIds", who->tasks);
  idem__write_object_end(&writer);
  write_subscription(who, &writer);
  idem__write_object_end(&writer);
  if (writer.status == IDEM_OK) {
    idem__notify_text(idem_request_conn(context->request),
                      "notifications/subscriptions/acknowledged", &params);
  }
  idem_buf_deinit(&params);
}

static bool strings_within(idem__context *context, yyjson_val *list) {
  yyjson_arr_iter iter;
  if (!list) return true;
  if (!yyjson_arr_iter_init(list, &iter)) return yyjson_is_arr(list);
  if (yyjson_arr_size(list) > context->server->opts.max_subscriptions) return false;
  for (yyjson_val *each; (each = yyjson_arr_iter_next(&iter));) {
    if (!yyjson_is_str(each) || yyjson_get_len(each) > IDEM__SUBSCRIBED_URI_BYTES) return false;
  }
  return true;
}

/* The first filter that is no switch; NULL: all are. */
static const char *bad_switch(yyjson_val *wanted) {
  static const char *const names[] = {"toolsListChanged", "promptsListChanged",
                                      "resourcesListChanged"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    yyjson_val *value = yyjson_obj_get(wanted, names[i]);
    if (value && !yyjson_is_bool(value)) return names[i];
  }
  return NULL;
}

static bool refuse_switch(idem__context *context, yyjson_val *wanted, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "notifications.%s", name);
  idem__reply_bad_param(context, path, "boolean", yyjson_obj_get(wanted, name));
  return false;
}

static bool offers_tasks(const idem__context *context) {
  return idem__server_offers(context->server, context->lists->registry, IDEM__CAP_TASKS);
}

static bool listen_params_fine(idem__context *context, yyjson_val *wanted, yyjson_val *resources,
                               yyjson_val *tasks) {
  const char *bad = yyjson_is_obj(wanted) ? bad_switch(wanted) : NULL;
  if (bad) return refuse_switch(context, wanted, bad);
  if (!yyjson_is_obj(wanted)) {
    idem__reply_bad_param(context, "notifications", "object", wanted);
  } else if (!strings_within(context, resources)) {
    idem__reply_bad_param(context, "notifications.resourceSubscriptions", "an array of strings",
                          resources);
  } else if (!strings_within(context, tasks)) {
    idem__reply_bad_param(context, "notifications.taskIds", "an array of strings", tasks);
  } else if (tasks && !idem__task_declared(context)) {
    idem__refuse_capability(context, IDEM__TASKS_REQUIRED);
  } else {
    return true;
  }
  return false;
}

void idem__run_listen(idem__context *context, yyjson_val *params) {
  yyjson_val *wanted = params ? yyjson_obj_get(params, "notifications") : NULL;
  yyjson_val *resources = yyjson_obj_get(wanted, "resourceSubscriptions");
  yyjson_val *tasks = yyjson_obj_get(wanted, "taskIds");
  if (!listen_params_fine(context, wanted, resources, tasks)) return;
  if (!idem__can_reach(context)) {
    idem__refuse_streamless(context);
    return;
  }
  listener *who = idem__arena_malloc(idem__request_memory(context->request), sizeof *who);
  if (!who) {
    idem_request_drop(context->request);
    return;
  }
  bool offers = idem__server_offers(context->server, context->lists->registry, IDEM__CAP_RESOURCES);
  who->context = context;
  who->kinds = honoured_kinds(context, wanted);
  who->resources = offers ? resources : NULL;
  who->tasks = offers_tasks(context) ? tasks : NULL;
  idem_request_keep(context->request);
  idem_request_on_cancel(context->request, on_listener_gone, who);
  idem_list_append(&context->worker->listeners, &who->link);
  if (who->tasks) atomic_fetch_add(&context->server->listening, 1);
  acknowledge(who);
}
