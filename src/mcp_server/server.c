/* server.c - an MCP server: its options, its router, and what it says of itself. */
#include "server.h"
#include "context.h"
#include "define.h"
#include "input.h"
#include "news.h"
#include "once.h"
#include "scope.h"
#include "task.h"

#include <string.h>

#define DEFAULT_PAGE 1000u
#define ALL_REVISIONS 31u

void idem__server_lock(idem_server *server) { idem__lock_take(&server->lock); }
void idem__server_unlock(idem_server *server) { idem__lock_give(&server->lock); }

uint64_t idem__server_wall_ms(const idem_server *server) {
  return server->opts.wall_ms ? server->opts.wall_ms(server->opts.os_ctx) : 0;
}

void idem__server_random(const idem_server *server, void *bytes, size_t len) {
  server->opts.random(server->opts.os_ctx, bytes, len);
}

char *idem__server_copy(idem_server *server, const char *text, idem_status *status) {
  if (!text) return NULL;
  char *copy = idem__strndup(&server->alloc, text, strlen(text));
  if (!copy) *status = IDEM_E_NOMEM;
  return copy;
}

/* ------------------------------------------------------------------ making */

static void set_defaults(idem_server_opts *opts) {
  if (!opts->page_size) opts->page_size = DEFAULT_PAGE;
  if (!opts->input_ms) opts->input_ms = 600000;
  if (!opts->task_ttl_ms) opts->task_ttl_ms = 300000;
  if (!opts->task_poll_ms) opts->task_poll_ms = 1000;
  if (!opts->max_tasks) opts->max_tasks = 10000;
  if (!opts->max_task_bytes) opts->max_task_bytes = (size_t)256 << 20;
  if (!opts->max_subscriptions) opts->max_subscriptions = 1000;
  if (!opts->key_ms) opts->key_ms = (uint64_t)24 * 60 * 60 * 1000;
  if (!opts->max_keys) opts->max_keys = 100000;
  if (!opts->max_keys_each) opts->max_keys_each = opts->max_keys / 2 + opts->max_keys % 2;
  if (!opts->max_key_bytes) opts->max_key_bytes = (size_t)1 << 20;
  if (!opts->lease_ms) opts->lease_ms = 10000;
  if (!opts->state_ms) opts->state_ms = 600000;
  if (!opts->revisions) opts->revisions = ALL_REVISIONS;
}

/* An extension's name has a prefix; ours is in the list already. */
static bool extensions_fine(idem_server *server, const char *text) {
  idem_status status;
  yyjson_alc alc = idem__json_alc(&server->alloc);
  yyjson_doc *doc = idem__json_read_text(text, strlen(text), 64, &alc, &status);
  size_t i, max;
  yyjson_val *name, *settings;
  bool fine = doc != NULL;
  idem_each_member(yyjson_doc_get_root(doc), i, max, name, settings) {
    const char *slash = strchr(yyjson_get_str(name), '/');
    if (!slash || slash == yyjson_get_str(name) || !slash[1] || !yyjson_is_obj(settings))
      fine = false;
    if (yyjson_equals_str(name, IDEM__TASKS_EXTENSION)) fine = false;
  }
  yyjson_doc_free(doc);
  return fine;
}

static idem_status copy_json(idem_server *server, const idem_server_opts *opts) {
  char *icons = NULL, *extensions = NULL, *experimental = NULL;
  idem_status status = idem__definition_json(server, opts->icons, '[', &icons);
  if (status == IDEM_OK) status = idem__definition_json(server, opts->extensions, '{', &extensions);
  if (status == IDEM_OK)
    status = idem__definition_json(server, opts->experimental, '{', &experimental);
  if (status == IDEM_OK && extensions && !extensions_fine(server, extensions))
    status = IDEM_E_INVAL;
  server->opts.icons = icons;
  server->opts.extensions = extensions;
  server->opts.experimental = experimental;
  return status;
}

static idem_status copy_options(idem_server *server, const idem_server_opts *opts) {
  idem_status status = IDEM_OK;
  server->opts = *opts;
  server->opts.icons = server->opts.extensions = server->opts.experimental = NULL;
  set_defaults(&server->opts);
  server->opts.name = idem__server_copy(server, opts->name, &status);
  server->opts.version = idem__server_copy(server, opts->version, &status);
  server->opts.title = idem__server_copy(server, opts->title, &status);
  server->opts.description = idem__server_copy(server, opts->description, &status);
  server->opts.website_url = idem__server_copy(server, opts->website_url, &status);
  server->opts.instructions = idem__server_copy(server, opts->instructions, &status);
  return status == IDEM_OK ? copy_json(server, opts) : status;
}

static void free_options(idem_server *server) {
  const char *const owned[] = {
      server->opts.name,        server->opts.version,     server->opts.title,
      server->opts.description, server->opts.website_url, server->opts.instructions,
      server->opts.icons,       server->opts.extensions,  server->opts.experimental};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
    idem__free(&server->alloc, (void *)(uintptr_t)owned[i]);
  }
}

static uint64_t random_seed(const idem_server *server) {
  uint64_t seed;
  idem__server_random(server, &seed, sizeof seed);
  return seed;
}

static void write_info(const idem_server_opts *opts, const idem__revision *revision,
                       idem__writer *writer) {
  idem__write_object(writer);
  idem__write_member_text(writer, "name", opts->name);
  idem__write_member_text(writer, "version", opts->version);
  if (idem__revision_has(revision, IDEM__F_TITLE)) {
    idem__write_member_text(writer, "title", opts->title);
  }
  if (idem__revision_has(revision, IDEM__F_IMPLEMENTATION)) {
    idem__write_member_text(writer, "description", opts->description);
    idem__write_member_text(writer, "websiteUrl", opts->website_url);
  }
  if (idem__revision_has(revision, IDEM__F_ICONS)) {
    idem__write_member_raw(writer, "icons", opts->icons);
  }
  idem__write_object_end(writer);
}

void idem__server_admit_limits(idem_server *server, const idem_limits *limits) {
  size_t queued = limits->queued_output_bytes;
  size_t most = queued > SIZE_MAX / 2 ? queued : queued * 2;
  size_t now = idem__answer_bytes(server);
  while (now < most && !atomic_compare_exchange_weak(&server->answer_bytes, &now, most)) continue;
}

#define INFO_BYTES ((size_t)16 << 20) /* icons may be data: URIs */

/* It goes into every answer of 2026-07-28: written once. */
static idem_status prepare_info(idem_server *server) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < IDEM__REVISIONS && status == IDEM_OK; i++) {
    idem_buf_init(&server->info[i], &server->alloc, INFO_BYTES);
    idem__writer writer = idem__writer_on(&server->info[i]);
    write_info(&server->opts, &idem__revisions[i], &writer);
    status = writer.status;
  }
  return status;
}

static void stop_watching(idem_server *server) {
  idem__store_watcher **all[] = {&server->news, &server->task_changes, &server->once_changes,
                                 &server->node_changes, &server->key_changes};
  for (size_t i = 0; server->store && i < sizeof all / sizeof all[0]; i++) {
    idem__store_unwatch(server->store, *all[i]);
    *all[i] = NULL;
  }
}

static void leave_store(idem_server *server) {
  stop_watching(server);
  if (server->store) idem__node_leave(server);
  idem__store_unref(server->store);
  server->store = NULL;
}

static idem_status join_store(idem_server *server, idem__store *store) {
  const struct {
    idem__store_space space;
    idem__store_watch_fn fn;
    idem__store_watcher **out;
  } all[] = {{IDEM__STORE_NEWS, idem__server_on_news, &server->news},
             {IDEM__STORE_TASKS, idem__task_on_change, &server->task_changes},
             {IDEM__STORE_ONCE, idem__once_on_change, &server->once_changes},
             {IDEM__STORE_NODES, idem__once_on_node, &server->node_changes},
             {IDEM__STORE_KEYS, idem__identity_on_change, &server->key_changes}};
  idem_status status = IDEM_OK;
  server->store = store;
  for (size_t i = 0; status == IDEM_OK && i < sizeof all / sizeof all[0]; i++)
    status = idem__store_watch(store, all[i].space, all[i].fn, server, all[i].out);
  if (status == IDEM_OK) idem__node_join(server);
  return status;
}

static idem_status make_store(idem_server *server) {
  uint64_t seed = idem__router_seed(server->router);
  idem__store_memory_opts opts = {.seed = seed, .alloc = &server->alloc};
  idem__store *store;
  idem_status status = idem__store_memory_new(&opts, &store);
  return status == IDEM_OK ? join_store(server, store) : status;
}

idem_status idem__server_use_store(idem_server *server, idem__store *store) {
  leave_store(server);
  server->node.shares = true;
  idem_status status = join_store(server, idem__store_ref(store));
  if (status == IDEM_OK) idem__identity_name_marks(server);
  return status;
}

const char *idem__server_store_name(const idem_server *server) { return server->store_name; }

idem_status idem__server_name_store(idem_server *server, const char *name) {
  idem_status status = IDEM_OK;
  server->store_name = idem__server_copy(server, name, &status);
  return status;
}

static idem_status make_parts(idem_server *server) {
  idem_router_opts router = {.alloc = &server->alloc, .seed = random_seed(server)};
  idem_status status = idem_router_new(&router, &server->router);
  idem_map_init(&server->elicitations, &server->alloc, router.seed);
  idem_map_init(&server->method_scopes, &server->alloc, router.seed);
  if (status == IDEM_OK) status = prepare_info(server);
  if (status == IDEM_OK) status = idem__registry_first(server);
  if (status == IDEM_OK) status = idem__state_keys(server);
  idem__identity_own(server);
  if (status == IDEM_OK) status = idem__onces_new(server);
  if (status == IDEM_OK) status = make_store(server);
  if (status == IDEM_OK) status = idem__tasks_new(server);
  if (status == IDEM_OK) status = idem__methods_register(server);
  return status;
}

static const char *missing_in(const idem_server_opts *opts) {
  if (!opts->name) return "its name is missing";
  if (!opts->version) return "its version is missing";
  if (!opts->random) return "random is missing: idem_server_os(&opts) of idem/uv.h fills it in";
  return NULL;
}

idem_status idem_server_new(const idem_server_opts *opts, idem_server **out) {
  const char *missing = missing_in(opts);
  *out = NULL;
  if (missing) {
    idem_logf(opts->log, IDEM_LOG_ERROR, "an MCP server cannot be made", "%s", missing);
    return IDEM_E_INVAL;
  }
  idem_alloc alloc = idem__alloc_or_default(opts->alloc);
  idem_server *server = idem__calloc(&alloc, sizeof *server);
  if (!server) return IDEM_E_NOMEM;
  server->alloc = alloc;
  idem__lock_init(&server->lock);
  idem__lock_init(&server->node.lock);
  idem__lock_init(&server->identity.lock);
  idem_list_init(&server->workers);
  idem_list_init(&server->ended_workers);
  idem_list_init(&server->expected);
  server->policy = idem_policy_preset(IDEM_PROFILE_MCP);
  if (opts->codes == IDEM_CODES_ERLMCP) server->policy.codes = IDEM_CODES_ERLMCP;
  idem__server_admit_limits(server, &server->policy.limits);
  idem_status status = copy_options(server, opts);
  if (status == IDEM_OK) status = make_parts(server);
  if (status != IDEM_OK) {
    idem_server_free(server);
    return status;
  }
  *out = server;
  return IDEM_OK;
}

idem_code_set idem__server_codes(const idem_server *server) { return server->policy.codes; }

/* Listeners are gone, but what else a loop does may keep it, and with it the worker, beyond the server. */
static void end_workers(idem_server *server) {
  idem__worker_free(server->own_worker);
  while (!idem_list_empty(&server->workers)) {
    idem__mcp_worker *worker = IDEM_CONTAINER(server->workers.next, idem__mcp_worker, link);
    if (worker->left) worker->left(worker, worker->wake_user);
    idem__worker_free(worker);
  }
}

void idem_server_free(idem_server *server) {
  if (!server) return;
  stop_watching(server); /* others who share the store may go on */
  end_workers(server);
  idem__workers_destroy_ended(server);
  idem__onces_free(server);
  idem__tasks_free(server);
  idem__elicitations_free(server);
  idem__scopes_free(server);
  leave_store(server);
  idem__node_deinit(server);
  if (server->registry) idem__registry_unref(server->registry);
  idem_router_free(server->router);
  idem__free(&server->alloc, server->method_users);
  idem__free(&server->alloc, server->store_name);
  free_options(server);
  for (size_t i = 0; i < IDEM__REVISIONS; i++) idem_buf_deinit(&server->info[i]);
  idem_alloc alloc = server->alloc;
  idem__free(&alloc, server);
}

idem_router *idem_server_router(idem_server *server) { return server->router; }

/* ---------------------------------------------------------------- accepting */

/* The worker of a loop of somebody's own: one for the server, told at once. */
static idem__mcp_worker *plain_hub(idem_server *server) {
  idem__mcp_worker *worker = server->own_worker;
  if (!worker && idem__worker_new(server, NULL, NULL, &worker) == IDEM_OK)
    server->own_worker = worker;
  return worker;
}

idem_status idem_server_accept(idem_server *server, const idem_conn_opts *opts, idem_conn **out) {
  idem__mcp_worker *worker = plain_hub(server);
  return worker ? idem__worker_accept(worker, opts, NULL, out) : IDEM_E_NOMEM;
}

/* ------------------------------------------------------- what it says of itself */

void idem__server_write_info(const idem_server *server, const idem__revision *revision,
                             idem__writer *writer) {
  const idem_buf *text = &server->info[idem__revision_index(revision)];
  idem__write_raw(writer, text->data, text->len);
}

static bool has_any(const idem__registry *registry, idem__list_kind kind) {
  return registry->lists[kind].count > 0;
}

bool idem__server_offers(const idem_server *server, const idem__registry *registry,
                         idem__capability capability) {
  switch (capability) {
  case IDEM__CAP_TOOLS: return has_any(registry, IDEM__TOOLS) || server->ever[IDEM__TOOLS];
  case IDEM__CAP_RESOURCES:
    return has_any(registry, IDEM__RESOURCES) || has_any(registry, IDEM__TEMPLATES) ||
           server->ever[IDEM__RESOURCES] || server->ever[IDEM__TEMPLATES];
  case IDEM__CAP_PROMPTS: return has_any(registry, IDEM__PROMPTS) || server->ever[IDEM__PROMPTS];
  case IDEM__CAP_COMPLETIONS: return server->complete != NULL;
  case IDEM__CAP_TASKS: return server->ever_tasks;
  case IDEM__CAP_LOGGING: return !server->opts.no_logging;
  case IDEM__CAP_NONE: break;
  }
  return true;
}

static void write_changing(idem__writer *writer, const char *name, bool subscribe) {
  idem__write_key(writer, name);
  idem__write_object(writer);
  if (subscribe) idem__write_member_bool(writer, "subscribe", true);
  idem__write_member_bool(writer, "listChanged", true);
  idem__write_object_end(writer);
}

/* The extension of tasks beside those of the program. */
static void write_extensions(const idem__context *context, idem__writer *writer) {
  const idem_server *server = context->server;
  const char *more = server->opts.extensions;
  if (!idem__revision_has(context->revision, IDEM__R_MODERN)) return;
  if (!server->ever_tasks) {
    idem__write_member_raw(writer, "extensions", more);
    return;
  }
  idem__write_key(writer, "extensions");
  idem__write_object(writer);
  idem__write_member_raw(writer, IDEM__TASKS_EXTENSION, "{}");
  if (more && more[1] != '}') idem__write_raw(writer, more + 1, strlen(more) - 2);
  idem__write_object_end(writer);
}

/* That tools take keys, beside what the program says. */
static void write_experimental(const idem__context *context, idem__writer *writer) {
  const idem_server *server = context->server;
  const char *more = server->opts.experimental;
  char store[IDEM__ONCE_STORE_ID + 1];
  if (!idem__server_offers(server, context->lists->registry, IDEM__CAP_TOOLS)) {
    idem__write_member_raw(writer, "experimental", more);
    return;
  }
  idem__write_key(writer, "experimental");
  idem__write_object(writer);
  idem__write_key(writer, IDEM__ONCE_CAPABILITY);
  idem__write_object(writer);
  idem__write_member_int(writer, "keyMs", (int64_t)server->opts.key_ms);
  idem__server_keys_name(server, store);
  idem__write_member_text(writer, "store", store);
  idem__write_object_end(writer);
  if (more && more[1] != '}') idem__write_raw(writer, more + 1, strlen(more) - 2);
  idem__write_object_end(writer);
}

void idem__server_write_capabilities(idem__context *context, idem__writer *writer) {
  const idem_server *server = context->server;
  const idem__registry *registry = context->lists->registry;
  idem__write_object(writer);
  if (idem__server_offers(server, registry, IDEM__CAP_TOOLS)) {
    write_changing(writer, "tools", false);
  }
  if (idem__server_offers(server, registry, IDEM__CAP_RESOURCES)) {
    write_changing(writer, "resources", true);
  }
  if (idem__server_offers(server, registry, IDEM__CAP_PROMPTS)) {
    write_changing(writer, "prompts", false);
  }
  if (server->complete && idem__revision_has(context->revision, IDEM__R_COMPLETIONS)) {
    idem__write_member_raw(writer, "completions", "{}");
  }
  if (!server->opts.no_logging) idem__write_member_raw(writer, "logging", "{}");
  idem__tasks_write_capability(context, writer);
  write_extensions(context, writer);
  write_experimental(context, writer);
  idem__write_object_end(writer);
}
