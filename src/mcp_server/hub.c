/* hub.c - what one thread's peers share: the snapshot in use, a schema context, and who is told of
 * changes. Changes may come from any thread; they wait in the hub until its own thread delivers. */
#include "notify.h"
#include "page.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <string.h>

/* ------------------------------------------------------------------- views */

static idem__view_of_registry *new_view(idem__mcp_hub *hub) {
  idem__view_of_registry *view = idem__calloc(&hub->alloc, sizeof *view);
  if (!view) return NULL;
  idem__server_lock(hub->server);
  view->registry = hub->server->registry;
  atomic_fetch_add_explicit(&view->registry->refs, 1, memory_order_relaxed);
  idem__server_unlock(hub->server);
  view->refs = 1;
  view->alloc = &hub->alloc;
  return view;
}

void idem__view_unref(idem__view_of_registry *view) {
  if (--view->refs) return;
  idem__pages_free(view);
  idem__registry_unref(view->registry);
  idem__free(view->alloc, view);
}

/* Looks for a newer snapshot without taking the lock. */
static void refresh(idem__mcp_hub *hub) {
  uint64_t newest = atomic_load_explicit(&hub->server->generation, memory_order_acquire);
  if (hub->view && hub->view->registry->generation == newest) return;
  idem__view_of_registry *fresh = new_view(hub);
  if (!fresh) return; /* the old one still serves */
  if (hub->view) idem__view_unref(hub->view);
  hub->view = fresh;
}

idem__view_of_registry *idem__hub_view(idem__mcp_hub *hub) {
  refresh(hub);
  if (hub->view) hub->view->refs++;
  return hub->view;
}

/* ------------------------------------------------------------------ posting */

typedef struct idem__posted {
  struct idem__posted *next;
  void (*fn)(void *arg);
  void *arg;
} idem__posted;

idem_status idem__hub_post(idem__mcp_hub *hub, void (*fn)(void *arg), void *arg) {
  idem__posted *posted = idem__malloc(&hub->alloc, sizeof *posted);
  if (!posted) return IDEM_E_NOMEM;
  *posted = (idem__posted){.fn = fn, .arg = arg};
  idem__server_lock(hub->server);
  *hub->posted_end = posted;
  hub->posted_end = &posted->next;
  idem__server_unlock(hub->server);
  if (hub->wake)
    hub->wake(hub, hub->wake_user);
  else
    idem__hub_deliver(hub);
  return IDEM_OK;
}

void idem__hub_run_posted(idem__mcp_hub *hub) {
  idem__server_lock(hub->server);
  idem__posted *posted = hub->posted;
  hub->posted = NULL;
  hub->posted_end = &hub->posted;
  idem__server_unlock(hub->server);
  while (posted) {
    idem__posted *next = posted->next;
    posted->fn(posted->arg);
    idem__free(&hub->alloc, posted);
    posted = next;
  }
}

/* -------------------------------------------------------------------- hubs */

static void link_hub(idem__mcp_hub *hub) {
  idem__server_lock(hub->server);
  idem__list_append(&hub->server->hubs, &hub->link);
  idem__server_unlock(hub->server);
}

idem_status idem__hub_new(idem_server *server, void (*wake)(idem__mcp_hub *hub, void *user),
                          void *wake_user, idem__mcp_hub **out) {
  idem__mcp_hub *hub = idem__calloc(&server->alloc, sizeof *hub);
  if (!hub) return IDEM_E_NOMEM;
  hub->server = server;
  hub->alloc = server->alloc;
  hub->wake = wake;
  hub->wake_user = wake_user;
  hub->posted_end = &hub->posted;
  idem__list_init(&hub->peers);
  idem__list_init(&hub->listeners);
  idem__list_init(&hub->waiters);
  idem__list_init(&hub->hearers);
  idem__buf_init(&hub->scratch, &hub->alloc, SIZE_MAX / 4);
  idem_status status = idem_schema_ctx_new(&hub->alloc, &hub->schema);
  if (status == IDEM_OK) {
    hub->view = new_view(hub);
    if (!hub->view) status = IDEM_E_NOMEM;
  }
  if (status != IDEM_OK) {
    idem_schema_ctx_free(hub->schema);
    idem__free(&server->alloc, hub);
    return status;
  }
  link_hub(hub);
  *out = hub;
  return IDEM_OK;
}

static void free_updates(idem__mcp_hub *hub) {
  while (hub->updated) {
    idem__updated_uri *next = hub->updated->next;
    idem__free(&hub->alloc, hub->updated);
    hub->updated = next;
  }
}

static void destroy(idem__mcp_hub *hub) {
  idem__view_unref(hub->view);
  idem_schema_ctx_free(hub->schema);
  idem__buf_deinit(&hub->scratch);
  idem_alloc alloc = hub->alloc;
  idem__free(&alloc, hub);
}

/* Requests that handlers still hold need the hub's memory: then the server keeps it to its end. */
void idem__hub_free(idem__mcp_hub *hub) {
  if (!hub) return;
  idem__server_lock(hub->server);
  idem__list_remove(&hub->link);
  idem__server_unlock(hub->server);
  hub->wake = NULL;
  idem__hub_run_posted(hub); /* so that what it holds is let go of */
  idem__tasks_forget_hub(hub);
  free_updates(hub);
  if (!hub->contexts) {
    destroy(hub);
    return;
  }
  idem__server_lock(hub->server);
  idem__list_append(&hub->server->ended_hubs, &hub->link);
  idem__server_unlock(hub->server);
}

void idem__hubs_destroy_ended(idem_server *server) {
  while (!idem__list_empty(&server->ended_hubs)) {
    idem__mcp_hub *hub = IDEM__CONTAINER(server->ended_hubs.next, idem__mcp_hub, link);
    idem__list_remove(&hub->link);
    destroy(hub);
  }
}

/* ------------------------------------------------------------------ telling */

/* Wakes every hub; those without a hook are told at once, outside the lock. */
void idem__server_wake(idem_server *server) {
  bool direct = false;
  idem__server_lock(server);
  for (idem__list *at = server->hubs.next; at != &server->hubs; at = at->next) {
    idem__mcp_hub *hub = IDEM__CONTAINER(at, idem__mcp_hub, link);
    if (hub->wake)
      hub->wake(hub, hub->wake_user);
    else
      direct = true;
  }
  idem__server_unlock(server);
  if (direct) idem__hub_deliver(server->own_hub);
}

void idem__server_changed(idem_server *server, uint32_t kinds) {
  idem__server_lock(server);
  for (idem__list *at = server->hubs.next; at != &server->hubs; at = at->next) {
    idem__mcp_hub *hub = IDEM__CONTAINER(at, idem__mcp_hub, link);
    atomic_fetch_or_explicit(&hub->changed, kinds, memory_order_release);
  }
  idem__server_unlock(server);
  idem__server_wake(server);
}

static bool already_waiting(const idem__mcp_hub *hub, const char *uri, size_t len) {
  for (const idem__updated_uri *at = hub->updated; at; at = at->next) {
    if (strncmp(at->uri, uri, len) == 0 && at->uri[len] == '\0') return true;
  }
  return false;
}

/* With the lock held. Without memory the news is lost: it is a hint. */
static void add_update(idem__mcp_hub *hub, const char *uri, size_t len) {
  if (already_waiting(hub, uri, len) || hub->updated_count >= IDEM__UPDATES_MAX) return;
  idem__updated_uri *update = idem__malloc(&hub->alloc, sizeof *update + len + 1);
  if (!update) return;
  memcpy(update->uri, uri, len);
  update->uri[len] = '\0';
  update->next = hub->updated;
  hub->updated = update;
  hub->updated_count++;
}

static void tell_hubs(idem_server *server, const char *uri, size_t len) {
  idem__server_lock(server);
  for (idem__list *at = server->hubs.next; at != &server->hubs; at = at->next) {
    add_update(IDEM__CONTAINER(at, idem__mcp_hub, link), uri, len);
  }
  idem__server_unlock(server);
  idem__server_wake(server);
}

void idem__server_on_news(const idem__store_change *change, void *user) {
  if (change->event == IDEM__STORE_WAS_TOLD) tell_hubs(user, change->name, change->name_len);
}

/* By way of the store, so that the peers of other servers hear of it, too. */
void idem_server_resource_updated(idem_server *server, const char *uri) {
  idem__store_op op = {.verb = IDEM__STORE_TELL, .space = IDEM__STORE_NEWS, .name = uri};
  op.name_len = strlen(uri);
  idem_status status = idem__store_ask(server->store, &op, NULL).status;
  if (status != IDEM_OK) tell_hubs(server, uri, op.name_len);
}

static const char *const changed_methods[IDEM__LIST_KINDS] = {
    [IDEM__TOOLS] = "notifications/tools/list_changed",
    [IDEM__RESOURCES] = "notifications/resources/list_changed",
    [IDEM__TEMPLATES] = "notifications/resources/list_changed",
    [IDEM__PROMPTS] = "notifications/prompts/list_changed",
};

/* Legacy peers on a line are told unasked, once their handshake is over. */
static void tell_line_peers(idem__mcp_hub *hub, const char *method) {
  for (idem__list *at = hub->peers.next; at != &hub->peers;) {
    idem__mcp_peer *peer = IDEM__CONTAINER(at, idem__mcp_peer, link);
    at = at->next;
    if (peer->session && peer->session->initialized) idem_notify(peer->conn, method, NULL);
  }
}

static void tell_hearers(idem__mcp_hub *hub, const char *method, const char *uri) {
  for (idem__list *at = hub->hearers.next; at != &hub->hearers; at = at->next) {
    idem__mcp_hearer *hearer = IDEM__CONTAINER(at, idem__mcp_hearer, link);
    hearer->on_notification(hearer, method, uri);
  }
}

static void tell_changed(idem__mcp_hub *hub, const char *method, uint32_t kind) {
  tell_line_peers(hub, method);
  idem__listeners_tell(hub, kind, NULL);
  tell_hearers(hub, method, NULL);
}

static void tell_line_subscribers(idem__mcp_hub *hub, const char *uri) {
  for (idem__list *at = hub->peers.next; at != &hub->peers;) {
    idem__mcp_peer *peer = IDEM__CONTAINER(at, idem__mcp_peer, link);
    at = at->next;
    if (!peer->session || !idem__session_subscribed(peer->session, uri)) continue;
    idem__hub_notify_updated(peer->conn, uri);
  }
}

static void tell_updated(idem__mcp_hub *hub, const char *uri) {
  tell_line_subscribers(hub, uri);
  idem__listeners_tell(hub, 0, uri);
  tell_hearers(hub, "notifications/resources/updated", uri);
}

static void deliver_changes(idem__mcp_hub *hub) {
  uint32_t changed = atomic_exchange_explicit(&hub->changed, 0, memory_order_acquire);
  refresh(hub);
  /* A template changed is a resource list changed: one notification for both. */
  if (changed & (1u << IDEM__TEMPLATES)) changed |= 1u << IDEM__RESOURCES;
  changed &= ~(1u << IDEM__TEMPLATES);
  for (uint32_t kind = 0; kind < IDEM__LIST_KINDS; kind++) {
    if (changed & (1u << kind)) tell_changed(hub, changed_methods[kind], 1u << kind);
  }
}

static void deliver_updates(idem__mcp_hub *hub) {
  idem__server_lock(hub->server);
  idem__updated_uri *updates = hub->updated;
  hub->updated = NULL;
  hub->updated_count = 0;
  idem__server_unlock(hub->server);
  while (updates) {
    idem__updated_uri *next = updates->next;
    tell_updated(hub, updates->uri);
    idem__free(&hub->alloc, updates);
    updates = next;
  }
}

void idem__hub_deliver(idem__mcp_hub *hub) {
  hub->again = true;
  if (hub->delivering) return;
  hub->delivering = true;
  while (hub->again) {
    hub->again = false;
    idem__hub_run_posted(hub);
    deliver_changes(hub);
    deliver_updates(hub);
    idem__tasks_deliver(hub);
    for (idem__list *at = hub->hearers.next; at != &hub->hearers; at = at->next) {
      idem__mcp_hearer *hearer = IDEM__CONTAINER(at, idem__mcp_hearer, link);
      hearer->on_delivered(hearer);
    }
  }
  hub->delivering = false;
}

/* --------------------------------------------------------------------- time */

uint64_t idem__hub_deadline(idem__mcp_hub *hub) {
  uint64_t at = UINT64_MAX;
  for (idem__list *link = hub->hearers.next; link != &hub->hearers; link = link->next) {
    idem__mcp_hearer *hearer = IDEM__CONTAINER(link, idem__mcp_hearer, link);
    uint64_t its = hearer->deadline(hearer);
    if (its < at) at = its;
  }
  return at;
}

void idem__hub_expire(idem__mcp_hub *hub, uint64_t now_ms) {
  for (idem__list *at = hub->hearers.next; at != &hub->hearers; at = at->next) {
    idem__mcp_hearer *hearer = IDEM__CONTAINER(at, idem__mcp_hearer, link);
    if (hearer->deadline(hearer) <= now_ms) hearer->on_time(hearer, now_ms);
  }
}

void idem__hub_wake(idem__mcp_hub *hub) {
  if (hub->wake) hub->wake(hub, hub->wake_user);
}
