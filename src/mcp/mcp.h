/* mcp.h - what src/mcp offers the folders above it, and what its own files share.
 *
 * The nouns: a revision is a row of the version table; a registry is an immutable snapshot of what
 * is served; a hub is what one thread's peers share; a peer is one conn seen as MCP; a session is
 * what a legacy handshake agreed; a context is one request seen as MCP, whatever its era.
 * After the context is made nothing asks "which era" except through its revision's flags.
 * See docs/internals/mcp.md. */
#ifndef IDEM_MCP_PRIVATE_H
#define IDEM_MCP_PRIVATE_H

#include "../json/build.h"
#include "../rpc/rpc.h"
#include "../store/store.h"

#include <idem/mcp.h>
#include <idem/schema.h>

typedef struct idem__mcp_hub idem__mcp_hub;
typedef struct idem__mcp_peer idem__mcp_peer;
typedef struct idem__mcp_session idem__mcp_session;
typedef struct idem__context idem__context;
typedef struct idem__registry idem__registry;
typedef struct idem__task idem__task;

/* --------------------------------------------------------------- revisions */

/* What a revision does, and which fields it knows. */
enum {
  IDEM__R_MODERN = 1 << 0,           /* no handshake; _meta on every request */
  IDEM__R_BATCH = 1 << 1,            /* batches are accepted */
  IDEM__R_INPUT_FAILS_TOOL = 1 << 2, /* bad arguments are an isError result, not -32602 */
  IDEM__R_COMPLETIONS = 1 << 3,      /* the completions capability exists */
  IDEM__R_PROGRESS_MESSAGE = 1 << 4,
  IDEM__R_TASKS = 1 << 5,          /* the core form of tasks (2025-11-25) */
  IDEM__R_URL_ERROR = 1 << 6,      /* -32042 exists */
  IDEM__R_VERSION_HEADER = 1 << 7, /* MCP-Protocol-Version is checked */
  IDEM__R_PRIME_EVENT = 1 << 8,    /* streams begin with an empty event that has an id */
  IDEM__F_TITLE = 1 << 9,
  IDEM__F_TOOL_ANNOTATIONS = 1 << 10,
  IDEM__F_AUDIO = 1 << 11,
  IDEM__F_RESOURCE_LINK = 1 << 12,
  IDEM__F_STRUCTURED = 1 << 13,     /* outputSchema and structuredContent, objects only */
  IDEM__F_STRUCTURED_ANY = 1 << 14, /* ... of any type */
  IDEM__F_META = 1 << 15,           /* _meta on tools, resources, prompts, contents */
  IDEM__F_ICONS = 1 << 16,
  IDEM__F_IMPLEMENTATION = 1 << 17, /* description and websiteUrl of the server */
  IDEM__F_LAST_MODIFIED = 1 << 18,  /* in annotations */
  IDEM__F_COMPLETE_CONTEXT = 1 << 19,
  IDEM__F_ELICIT = 1 << 20,
  IDEM__F_ELICIT_URL = 1 << 21,
  IDEM__F_ELICIT_ID = 1 << 22,
  IDEM__F_EXECUTION = 1 << 23, /* Tool.execution.taskSupport */
  IDEM__F_SAMPLING_TOOLS = 1 << 24
};

typedef struct idem__revision {
  const char *date;
  idem_revision bit;
  uint32_t flags;
  idem_code_set codes;
} idem__revision;

#define IDEM__REVISIONS 5
extern const idem__revision idem__revisions[IDEM__REVISIONS]; /* newest first */
const idem__revision *idem__revision_find(const char *date, size_t len);
/* The newest legacy revision that the server serves; NULL: none. */
const idem__revision *idem__revision_legacy(const idem_server *server);
static inline bool idem__revision_has(const idem__revision *revision, uint32_t flag) {
  return (revision->flags & flag) != 0;
}
static inline size_t idem__revision_index(const idem__revision *revision) {
  return (size_t)(revision - idem__revisions);
}

/* ----------------------------------------------------------------- methods */

typedef enum idem__capability {
  IDEM__CAP_NONE,
  IDEM__CAP_TOOLS,
  IDEM__CAP_RESOURCES,
  IDEM__CAP_PROMPTS,
  IDEM__CAP_COMPLETIONS,
  IDEM__CAP_LOGGING,
  IDEM__CAP_TASKS
} idem__capability;

/* Where 2026-07-28's Mcp-Name header comes from. */
typedef enum idem__name_source {
  IDEM__NAME_NONE,
  IDEM__NAME_NAME,
  IDEM__NAME_URI,
  IDEM__NAME_TASK
} idem__name_source;

typedef void (*idem__method_run)(idem__context *context, yyjson_val *params);
typedef struct idem__mcp_method {
  const char *name;
  uint32_t revisions; /* bits of idem_revision */
  idem__capability capability;
  idem__name_source name_source;
  bool before_initialize; /* a legacy peer may call it first */
  idem__method_run run;
} idem__mcp_method;
/* A log level's name; -1: not one. */
int idem__level_parse(yyjson_val *val);
/* ["2026-07-28", ...]: every revision served, newest first. */
void idem__write_supported_versions(const idem_server *server, idem__writer *writer);
/* Registers every method and notification on the server's router. */
idem_status idem__methods_register(idem_server *server);

/* ---------------------------------------------------------------- registry */

/* Definitions hold their texts compact and checked. All strings are owned, NULL where absent. */
typedef struct idem__tool_entry {
  char *name, *title, *description, *input_schema, *output_schema, *annotations, *icons, *meta;
  idem_schema *input;  /* compiled */
  idem_schema *output; /* NULL: none */
  bool output_is_object;
  struct idem__header_rule *headers; /* x-mcp-header: see header.c */
  size_t header_count;
  idem_task_support task;
  idem_tool_fn fn;
  void *user;
  _Atomic unsigned refs;
} idem__tool_entry;

typedef struct idem__resource_entry {
  char *uri, *name, *title, *description, *mime_type, *annotations, *icons, *meta;
  int64_t size;
  struct idem__uri_template *pattern; /* NULL: a plain URI */
  idem_resource_fn fn;
  void *user;
  _Atomic unsigned refs;
} idem__resource_entry;

typedef struct idem__prompt_entry {
  char *name, *title, *description, *icons, *meta;
  struct idem__prompt_arg {
    char *name, *title, *description;
    bool required;
  } * arguments;
  size_t argument_count;
  idem_prompt_fn fn;
  void *user;
  _Atomic unsigned refs;
} idem__prompt_entry;

/* One kind of thing that is listed. */
typedef enum idem__list_kind {
  IDEM__TOOLS,
  IDEM__RESOURCES,
  IDEM__TEMPLATES,
  IDEM__PROMPTS,
  IDEM__LIST_KINDS
} idem__list_kind;

typedef struct idem__registry_list {
  void **entries; /* of the kind's entry type, in order of registration */
  size_t count;
  size_t capacity;
  idem__map by_name; /* name, or uri */
} idem__registry_list;

/* An immutable snapshot of what is served. Shared by threads, counted atomically. */
struct idem__registry {
  idem_alloc alloc;
  _Atomic unsigned refs;
  uint64_t generation;
  idem__registry_list lists[IDEM__LIST_KINDS];
};
void idem__registry_unref(idem__registry *registry);
idem_status idem__registry_first(idem_server *server);
/* Lookups in a snapshot. */
const idem__tool_entry *idem__registry_tool(const idem__registry *registry, const char *name,
                                            size_t len);
const idem__prompt_entry *idem__registry_prompt(const idem__registry *registry, const char *name,
                                                size_t len);
/* A plain URI first, then templates in order; fills *variables (see uritemplate.c) for the latter. */
const idem__resource_entry *idem__registry_resource(const idem__registry *registry, const char *uri,
                                                    size_t len);

/* Every entry is freed by the last snapshot that holds it. */
void idem__tool_entry_unref(idem__tool_entry *tool, const idem_alloc *alloc);
void idem__resource_entry_unref(idem__resource_entry *entry, const idem_alloc *alloc);
void idem__prompt_entry_unref(idem__prompt_entry *entry, const idem_alloc *alloc);

/* Makes the next snapshot with `entry` added (taken over, also on failure) or with the named one
 * removed (entry NULL) and swaps it in; tells hubs. OK, EXISTS, NOTFOUND, NOMEM. */
idem_status idem__registry_change(idem_server *server, idem__list_kind kind, const char *name,
                                  void *entry);

/* ------------------------------------------------------------------ server */

struct idem_server {
  idem_alloc alloc;
  idem_server_opts opts; /* strings replaced by owned copies */
  idem__store *store;    /* what is shared with other loops, and may be with other servers */
  idem__store_watcher *news, *task_changes;
  _Atomic unsigned listening; /* open subscriptions/listen that name tasks */
  idem_router *router;
  idem_policy policy;
  idem__registry *registry; /* guarded by lock */
  _Atomic uint64_t generation;
  idem__lock lock;
  idem__list hubs;       /* guarded by lock */
  idem__list ended_hubs; /* freed while requests were with handlers; guarded by lock */
  idem_completion_fn complete;
  void *complete_user;
  struct idem__task_table *tasks; /* see task.c */
  uint8_t state_key[32];          /* see state.c */
  uint8_t state_key_old[32];
  bool has_old_key;
  struct idem__method_user *method_users; /* one for each method row */
  idem__mcp_hub *own_hub;                 /* for loops of somebody's own; NULL until needed */
  _Atomic bool ever[IDEM__LIST_KINDS];    /* a list once filled stays offered, even empty */
  idem__buf info[IDEM__REVISIONS];        /* serverInfo, as each revision knows it */
};
static inline bool idem__server_speaks(const idem_server *server, idem_revision revision) {
  return (server->opts.revisions & (uint32_t)revision) != 0;
}
/* Shares a store with others; before serving. INVAL: it does not answer at once. */
idem_status idem__server_use_store(idem_server *server, idem__store *store);
void idem__server_lock(idem_server *server); /* short sections only */
void idem__server_unlock(idem_server *server);
/* Copies a string option; NULL stays NULL. */
char *idem__server_copy(idem_server *server, const char *text, idem_status *status);
/* Checks JSON text of a definition and copies it compact; INVAL unless it begins with `open`. */
idem_status idem__definition_json(idem_server *server, const char *text, char open, char **out);
/* INVAL, with a sentence in `why` if there is room for one. */
idem_status idem__definition_refuse(char *why, size_t why_len, const char *sentence);
/* The two together, for the JSON texts of a definition in turn. */
typedef struct idem__definition_text {
  const char *text;
  char open;
  char **out;
  const char *sentence;
} idem__definition_text;
idem_status idem__definition_copy(idem_server *server, const idem__definition_text *texts,
                                  size_t count, char *why, size_t why_len);
/* Somebody who shares the store has news for our peers. */
void idem__server_on_news(const idem__store_change *change, void *user);
/* Makes every hub deliver what waits for it. From any thread. */
void idem__server_wake(idem_server *server);
/* Something in these lists changed (bits of idem__list_kind): tells every hub. From any thread. */
void idem__server_changed(idem_server *server, uint32_t kinds);
/* The server's capabilities, {"tools":{...},...}, as a revision names them. */
void idem__server_write_capabilities(idem__context *context, idem__writer *writer);
/* {"name","version","title"?,...} as a revision knows them. */
void idem__server_write_info(const idem_server *server, const idem__revision *revision,
                             idem__writer *writer);
bool idem__server_offers(const idem_server *server, const idem__registry *registry,
                         idem__capability capability);
uint64_t idem__server_wall_ms(const idem_server *server);
void idem__server_random(const idem_server *server, void *bytes, size_t len);

/* --------------------------------------------------------------------- hub */

/* A registry as one thread uses it: counted without atomics, with its prepared lists. */
typedef struct idem__view_of_registry {
  idem__registry *registry;
  unsigned refs;
  struct idem__page *pages[IDEM__LIST_KINDS][IDEM__REVISIONS]; /* prepared answers: see page.c */
  const idem_alloc *alloc;
} idem__view_of_registry;

/* News of a resource that waits to be told. */
typedef struct idem__updated_uri {
  struct idem__updated_uri *next;
  char uri[];
} idem__updated_uri;
#define IDEM__UPDATES_MAX 10000u

/* Told as well: an endpoint of the HTTP folder, for its legacy streams. Several may serve one hub. */
typedef struct idem__mcp_hearer {
  idem__list link; /* in hub->hearers */
  void (*on_notification)(struct idem__mcp_hearer *hearer, const char *method, const char *uri);
  void (*on_delivered)(struct idem__mcp_hearer *hearer); /* after each delivery */
} idem__mcp_hearer;

/* What one thread's peers share. */
struct idem__mcp_hub {
  idem__list link; /* in server->hubs */
  idem_server *server;
  idem_alloc alloc;
  size_t contexts; /* requests not yet ended */
  idem__view_of_registry *view;
  idem_schema_ctx *schema;
  idem__list peers;     /* line peers with a session, for unsolicited legacy notifications */
  idem__list listeners; /* subscriptions/listen requests: see subscribe.c */
  /* Changes waiting to be told; set from any thread. */
  _Atomic uint32_t changed;   /* bit per idem__list_kind */
  idem__updated_uri *updated; /* guarded by the server's lock */
  size_t updated_count;
  struct idem__posted *posted, **posted_end; /* guarded by the server's lock */
  idem__list waiters;                        /* tasks/result of 2025-11-25: see task.c */
  struct idem__task_event *task_events;      /* guarded by the tasks' lock */
  bool task_missed;                          /* so is this: there was no memory for an event */
  bool delivering, again; /* what happens meanwhile is delivered by the same loop */
  idem__buf scratch;      /* a result under construction; one at a time */
  /* Called from any thread: make this hub's thread call idem__hub_deliver soon. NULL: it is called
   * at once (one thread, a loop of somebody's own). */
  void (*wake)(idem__mcp_hub *hub, void *user);
  void *wake_user;
  idem__list hearers;
};
idem_status idem__hub_new(idem_server *server, void (*wake)(idem__mcp_hub *hub, void *user),
                          void *wake_user, idem__mcp_hub **out);
/* Cancels the tasks whose handlers still run on it. */
void idem__hub_free(idem__mcp_hub *hub);
/* With the server: what hubs left that ended before their requests. */
void idem__hubs_destroy_ended(idem_server *server);
/* Has `fn` called on the hub's thread, soon. From any thread. NOMEM: it will not be. */
idem_status idem__hub_post(idem__mcp_hub *hub, void (*fn)(void *arg), void *arg);
/* Calls them now, before what they use goes. On the hub's thread. */
void idem__hub_run_posted(idem__mcp_hub *hub);
/* A conn for one line peer of this hub; `principal` is copied and may be NULL. */
idem_status idem__hub_accept(idem__mcp_hub *hub, const idem_conn_opts *opts, const char *principal,
                             idem_conn **out);
/* notifications/resources/updated, as legacy peers know it. */
void idem__hub_notify_updated(idem_conn *conn, const char *uri);
/* Tells peers what changed since the last time; coalesced. On the hub's thread. */
void idem__hub_deliver(idem__mcp_hub *hub);
/* The current snapshot, counted. */
idem__view_of_registry *idem__hub_view(idem__mcp_hub *hub);
void idem__view_unref(idem__view_of_registry *view);

/* ----------------------------------------------------------- peer, session */

/* What a legacy handshake agreed. A line peer has its own; HTTP keeps them by id. */
struct idem__mcp_session {
  idem_alloc alloc;
  const idem__revision *revision;
  _Atomic bool initialized; /* notifications/initialized came */
  _Atomic int log_level;    /* idem_mcp_level; -1: the peer set none */
  yyjson_doc *hello;        /* the initialize params, for client_info and capabilities */
  idem__map subscriptions;  /* uri -> owned copy; HTTP guards it with its own lock */
};
/* Makes one from initialize's params; the revision is agreed. */
idem_status idem__session_init(idem__mcp_session *session, const idem_alloc *alloc, uint64_t seed,
                               const idem__revision *revision, yyjson_val *params);
void idem__session_deinit(idem__mcp_session *session);
bool idem__session_subscribed(const idem__mcp_session *session, const char *uri);

/* What may change in a session after its handshake. */
typedef enum idem__session_change_kind {
  IDEM__SESSION_INITIALIZED,
  IDEM__SESSION_LEVEL,
  IDEM__SESSION_SUBSCRIBE,
  IDEM__SESSION_UNSUBSCRIBE
} idem__session_change_kind;
typedef struct idem__session_change {
  idem__session_change_kind kind;
  int level;
  const char *uri;
  size_t uri_len;
} idem__session_change;
/* Makes a change; one that was made already is made again to no effect. LIMIT: `max_subscriptions`
 * are there; NOMEM. */
idem_status idem__session_apply(idem__mcp_session *session, const idem__session_change *change,
                                size_t max_subscriptions);
/* The same for a peer's session, wherever that is kept. */
idem_status idem__session_change_for(idem__mcp_peer *peer, const idem__session_change *change);

/* What a transport that is not a line tells and is told. NULL for line peers. */
typedef struct idem__edge {
  /* A request header by lower-case name; false: absent. */
  bool (*header)(void *ctx, const char *name, const char **value, size_t *len);
  /* The HTTP status of an error that no handler made. */
  void (*set_status)(void *ctx, int status);
  /* initialize succeeded: keep the session (made with idem__session_init by the callee). */
  idem_status (*open_session)(void *ctx, const idem__revision *revision, yyjson_val *params,
                              idem__mcp_session **out);
  /* Makes a change in a session that others share. */
  idem_status (*change_session)(void *ctx, const idem__session_change *change);
} idem__edge;

/* One conn seen as MCP. conn->attachment points to it. */
struct idem__mcp_peer {
  idem__list link; /* in hub->peers, for line peers with a session */
  idem__mcp_hub *hub;
  idem_conn *conn;
  idem__mcp_session *session; /* NULL: no legacy handshake yet */
  idem__mcp_session own;      /* a line peer's */
  const char *principal;      /* "" when there is none; borrowed from the transport */
  const idem__edge *edge;
  void *edge_ctx;
  const idem__revision *assumed; /* legacy service without a session (HTTP); NULL: none */
};
idem_status idem__mcp_peer_init(idem__mcp_peer *peer, idem__mcp_hub *hub, idem_conn *conn);
void idem__mcp_peer_deinit(idem__mcp_peer *peer);
static inline idem__mcp_peer *idem__mcp_peer_of(const idem_conn *conn) {
  return conn ? conn->attachment : NULL;
}

/* ----------------------------------------------------------------- context */

/* One request seen as MCP. Lives in the request's own memory; request->attachment points to it. */
struct idem__context {
  idem_request *request;
  idem_server *server;
  idem__mcp_hub *hub;
  idem__view_of_registry *view;
  const idem__mcp_method *method;
  const idem__revision *revision;
  const char *principal;      /* copied */
  idem__mcp_session *session; /* legacy; NULL in 2026-07-28 and for stateless service */
  yyjson_val *params;
  yyjson_val *meta;
  yyjson_val *client_info;
  yyjson_val *capabilities;   /* the client's; NULL: none */
  const char *progress_token; /* raw */
  size_t progress_token_len;
  double last_progress;
  int log_level; /* idem_mcp_level at and above which the peer wants lines; -1: none */
  /* what is called */
  const idem__tool_entry *tool;
  const idem__resource_entry *resource;
  const idem__prompt_entry *prompt;
  yyjson_val *arguments;
  const char *uri;
  struct idem__uri_variable *variables;
  size_t variable_count;
  /* input rounds: see input.c */
  yyjson_val *answers; /* object by key; NULL: none */
  const void *state;
  size_t state_len;
  struct idem__round *round; /* legacy: questions under way */
  unsigned rounds;
  idem__task *task; /* what the request became */
};
static inline idem__context *idem__context_of(const idem_request *request) {
  return request->attachment;
}
/* The same while the request can be answered; NULL: it was, or it is not MCP's. */
static inline idem__context *idem__context_open(const idem_request *request) {
  return request->live && !request->ended ? idem__context_of(request) : NULL;
}
/* Runs the handler (again): tool, resource or prompt, by what the context holds. */
void idem__context_run(idem__context *context);
/* ... a request whose handler had asked for more and has it now. */
void idem__context_rerun(idem__context *context);

/* --------------------------------------------------------------- answering */

#define IDEM__META_SERVER_INFO "io.modelcontextprotocol/serverInfo"

/* Starts a result in a buffer: {"resultType":"complete", ... as the revision wants; the caller adds
 * members and calls end. */
typedef struct idem__result {
  idem__context *context;
  idem__buf buf;
  idem__writer writer;
  bool failed_tool; /* the result says isError: a core task then counts as failed */
} idem__result;
void idem__result_begin(idem__result *result, idem__context *context, const char *result_type);
/* Adds ttlMs and cacheScope where the revision has them. */
void idem__result_cacheable(idem__result *result);
/* Adds serverInfo to _meta where the revision has it, together with `meta` (object, or NULL), closes
 * the object and sends it (to the peer, or into the task). Ends the request. */
idem_status idem__result_end(idem__result *result, const yyjson_mut_val *meta);
/* The two halves of end, for text that is kept instead of sent: close it, use buf, abandon. */
idem_status idem__result_close(idem__result *result, const yyjson_mut_val *meta);
void idem__result_abandon(idem__result *result);
/* A finished result object as text: prepared answers. */
idem_status idem__reply_text(idem__context *context, const char *json, size_t len);
/* An error that a handler or feature made: HTTP status stays 200. */
idem_status idem__reply_failure(idem__context *context, int64_t code, const char *message,
                                const char *data_json, size_t len);
/* ... whose data names what is missing: {key: text}. */
idem_status idem__reply_missing(idem__context *context, int64_t code, const char *message,
                                const char *key, const char *text, size_t len);
/* ... of the answer itself: it came too late, or the request is of another kind. STATE. */
idem_status idem__reply_misplaced(idem_request *request);
/* -32602 with {"param","expected","received"}. */
idem_status idem__reply_bad_param(idem__context *context, const char *param, const char *expected,
                                  yyjson_val *received);
/* An error found before any handler: takes an HTTP status with it (0: leave 200). */
idem_status idem__refuse(idem__context *context, int status, int64_t code, const char *data_json,
                         size_t len);
/* -32021 or what the revision has for it; `required` is JSON object text. */
idem_status idem__refuse_capability(idem__context *context, const char *required);

/* ---------------------------------------------------------------- features */

/* page.c: prepared lists, and cursors that are positions */
void idem__write_position(idem__writer *writer, const char *key, size_t position);
bool idem__parse_position(yyjson_val *cursor, int64_t *position);
void idem__page_reply(idem__context *context, idem__list_kind kind, yyjson_val *params);
void idem__pages_free(idem__view_of_registry *view);

/* tool.c, resource.c, prompt.c, complete.c, logging.c, subscribe.c, task.c, hello.c: the methods */
void idem__run_initialize(idem__context *context, yyjson_val *params);
void idem__run_ping(idem__context *context, yyjson_val *params);
void idem__run_discover(idem__context *context, yyjson_val *params);
void idem__run_tools_list(idem__context *context, yyjson_val *params);
void idem__run_tools_call(idem__context *context, yyjson_val *params);
void idem__run_resources_list(idem__context *context, yyjson_val *params);
void idem__run_templates_list(idem__context *context, yyjson_val *params);
void idem__run_resources_read(idem__context *context, yyjson_val *params);
void idem__run_subscribe(idem__context *context, yyjson_val *params);
void idem__run_unsubscribe(idem__context *context, yyjson_val *params);
void idem__run_listen(idem__context *context, yyjson_val *params);
void idem__run_prompts_list(idem__context *context, yyjson_val *params);
void idem__run_prompts_get(idem__context *context, yyjson_val *params);
void idem__run_complete(idem__context *context, yyjson_val *params);
void idem__run_set_level(idem__context *context, yyjson_val *params);
void idem__run_tasks_get(idem__context *context, yyjson_val *params);
void idem__run_tasks_result(idem__context *context, yyjson_val *params);
void idem__run_tasks_list(idem__context *context, yyjson_val *params);
void idem__run_tasks_cancel(idem__context *context, yyjson_val *params);
void idem__run_tasks_update(idem__context *context, yyjson_val *params);

/* How a definition looks in a list, by revision. */
void idem__tool_write(const idem__tool_entry *tool, const idem__revision *revision,
                      idem__writer *writer);
void idem__resource_write(const idem__resource_entry *resource, const idem__revision *revision,
                          idem__writer *writer);
void idem__prompt_write(const idem__prompt_entry *prompt, const idem__revision *revision,
                        idem__writer *writer);
/* ... of any kind. */
void idem__entry_write(idem__list_kind kind, const void *entry, const idem__revision *revision,
                       idem__writer *writer);

/* content.c: writes an array of content blocks as a revision knows them: unknown kinds become text,
 * unknown fields are left out. */
void idem__content_write(yyjson_val *blocks, const idem__revision *revision, idem__writer *writer);
void idem__content_write_block(yyjson_val *block, const idem__revision *revision,
                               idem__writer *writer);

/* header.c: 2026-07-28's Mcp-Name and Mcp-Param-* headers. */
typedef struct idem__header_rule {
  char *header; /* "mcp-param-region", lower case */
  char **path;  /* property names from the root, NULL-terminated */
  char type;    /* 's'tring, 'i'nteger, 'b'oolean */
} idem__header_rule;
/* Finds x-mcp-header annotations; INVAL with `why` when one breaks a rule. */
idem_status idem__header_rules(idem_server *server, yyjson_val *schema, idem__tool_entry *tool,
                               char *why, size_t why_len);
void idem__header_rules_free(idem__tool_entry *tool, const idem_alloc *alloc);
/* Checks Mcp-Method against the message; false: refused. */
bool idem__headers_check_method(idem__context *context);
/* Checks Mcp-Name, where the method has one; false: refused. */
bool idem__headers_check(idem__context *context, yyjson_val *params);
/* Checks Mcp-Param-*; false: refused. */
bool idem__headers_check_params(idem__context *context, const idem__tool_entry *tool,
                                yyjson_val *arguments);

/* uritemplate.c: RFC 6570 */
typedef struct idem__uri_template idem__uri_template;
typedef struct idem__uri_variable {
  const char *name;
  size_t name_len;
  char *value; /* decoded, NUL-terminated, in the request's memory */
} idem__uri_variable;
idem_status idem__uri_template_parse(const idem_alloc *alloc, const char *text,
                                     idem__uri_template **out);
void idem__uri_template_free(idem__uri_template *pattern, const idem_alloc *alloc);
/* Does the URI match? With an arena, the variables' values too. NOTFOUND, NOMEM. */
idem_status idem__uri_template_match(const idem__uri_template *pattern, const char *uri, size_t len,
                                     idem__arena *arena, idem__uri_variable **variables,
                                     size_t *count);

/* input.c: multi round trip. Reads inputResponses and requestState of a request; false: refused. */
bool idem__input_read(idem__context *context, yyjson_val *params);
/* A task's side of asking is in task.c. */
void idem__input_cancel(idem__context *context);
/* Copies what the handler wants to see again into the request's memory; NULL: nothing. */
idem_status idem__input_keep_state(idem__context *context, const void *state, size_t len);
/* Writes {"method","params"} of an ask, as a revision knows it. */
void idem__input_write_ask(const idem_ask *ask, const idem__revision *revision,
                           idem__writer *writer);

/* Derives the server's keys from its options, or makes a random one. */
idem_status idem__state_keys(idem_server *server);
/* state.c: requestState sealed with HMAC-SHA-256: expiry, principal, method, digest of the params. */
idem_status idem__state_seal(idem__context *context, const void *state, size_t len, idem__buf *out);
/* INVAL: tampered with, expired, somebody else's or another request's. The state is in `out`. */
idem_status idem__state_open(idem__context *context, const char *text, size_t len, idem__buf *out);

/* notify.c: a notification on the request's own stream. `params` is what was written. */
idem_status idem__notify_text(idem_conn *conn, const char *method, idem__buf *params);

/* subscribe.c */
void idem__listeners_tell(idem__mcp_hub *hub, uint32_t changed, const char *updated_uri);
void idem__listeners_close(idem__mcp_hub *hub);

/* ------------------------------------------------------------------- tasks */

typedef enum idem__task_state {
  IDEM__TASK_WORKING,
  IDEM__TASK_INPUT,
  IDEM__TASK_COMPLETED,
  IDEM__TASK_FAILED,
  IDEM__TASK_CANCELLED
} idem__task_state;

/* A question a task's handler asked. */
typedef struct idem__task_ask_entry {
  char *key;
  char *json;   /* {"method","params"} */
  char *answer; /* JSON object; NULL: not yet */
  bool sent;    /* 2025-11-25: asked on somebody's tasks/result */
} idem__task_ask_entry;

#define IDEM__TASK_ID 32
/* Shared by threads under the table's lock; `context` belongs to the hub's thread alone. One whose
 * handler runs elsewhere has no hub: its image shows what the store has. */
struct idem__task {
  idem__list link;  /* in the table, by creation */
  uint64_t version; /* of its record */
  unsigned busy;    /* changes of ours on their way to the store */
  bool dirty;       /* changed, and not in the store yet */
  bool saving, save_again;
  idem__task *next_dirty;
  idem_server *server;
  unsigned refs;
  char id[IDEM__TASK_ID + 1];
  char *principal;
  idem__mcp_hub *hub;
  idem__context *context; /* the handler's; NULL once it has answered */
  idem__task_state state;
  char *message;
  uint64_t created_ms, updated_ms;
  char *outcome; /* the result object, or the error object */
  size_t outcome_len;
  bool is_error;
  bool cancel_asked;
  bool resume;
  idem__task_ask_entry *asks;
  size_t ask_count;
};

/* task_table.c: every function takes the lock by itself unless it says otherwise. */
idem_status idem__tasks_new(idem_server *server);
void idem__tasks_free(idem_server *server);
void idem__tasks_lock(idem_server *server);
void idem__tasks_unlock(idem_server *server);
/* LIMIT: max_tasks of them are alive. */
idem_status idem__task_create(idem__context *context, idem__task **out);
/* A task of this principal, counted; NULL: none. Let go with idem__task_unref. */
idem__task *idem__task_find(idem_server *server, const char *principal, const char *id, size_t len);
void idem__task_unref(idem__task *task);
static inline bool idem__task_terminal(const idem__task *task) {
  return task->state >= IDEM__TASK_COMPLETED;
}
/* With the lock held: a new state; every hub will be told. */
void idem__task_set_state(idem__task *task, idem__task_state state);
/* Wakes the hubs after such changes; without the lock. */
void idem__tasks_wake(idem_server *server);
/* With the lock held: the members of a task, in the form of a revision; `detailed` adds what it
 * asks for or came to. */
void idem__task_write(const idem__task *task, const idem__revision *revision, bool detailed,
                      idem__writer *writer);
/* What other threads left for this hub. */
void idem__tasks_deliver(idem__mcp_hub *hub);
/* The hub goes: its tasks that wait for input end, handlers of others are told to stop. */
void idem__tasks_forget_hub(idem__mcp_hub *hub);
/* With the lock held: */
void idem__task_free_asks(idem__task *task);
void idem__task_release(idem__task *task);
/* ... has every hub told of the task as it is. */
void idem__task_tell(idem__task *task);
/* ... an image comes into the table; one that is there, not counted. */
idem_status idem__task_enter(idem_server *server, idem__task *task);
idem__task *idem__task_known(idem_server *server, const char *id);

/* task_record.c: tasks in the store. Without the lock. */
const char *idem__task_state_word(idem__task_state state);
/* Writes the record: a fresh one, within `limit` records, or in place of the version seen. */
idem_status idem__task_put(idem__task *task, bool fresh, size_t limit);
/* ... together with what others changed meanwhile. */
void idem__task_save(idem__task *task);
/* The image, as the store has it, counted; NULL: there is none. */
idem__task *idem__task_load(idem_server *server, const char *id, bool only_known, bool *changed);
void idem__task_on_change(const idem__store_change *change, void *user);
/* Shows the tasks of a principal by birth, those after a number; false: enough. The image lives for
 * the call. */
typedef bool (*idem__task_each)(const idem__task *task, uint64_t number, void *user);
void idem__tasks_list(idem_server *server, const char *principal, uint64_t after,
                      idem__task_each each, void *user);

/* task.c */
bool idem__task_possible(const idem__context *context);
/* Before a tool's handler: makes the request a task where tool and peer want one; false: refused. */
bool idem__task_admit(idem__context *context, yyjson_val *params);
/* The handler's answer, for the task: a result object or an error object. Ends the request. */
idem_status idem__task_finish(idem__context *context, bool is_error, bool tool_failed,
                              const char *json, size_t len);
/* The handler let go of the request without an answer. */
void idem__task_abandon(idem__context *context);
/* What a capability object says, {"list":{},...}; nothing where there are no tasks. */
void idem__tasks_write_capability(const idem__context *context, idem__writer *writer);
/* On the hub's thread: acts on what happened to one of its tasks, and answers who waits for it. */
void idem__task_act(idem__task *task);
void idem__task_answer_waiters(idem__mcp_hub *hub, idem__task *task);

/* task_input.c */
idem_status idem__task_ask(idem__context *context, const idem_ask *asks, size_t count,
                           const void *state, size_t state_len);
/* With the lock held: takes answers by key; true when none is missing any more. */
bool idem__task_take_answers(idem__task *task, yyjson_val *answers);
/* On the hub's thread: runs the handler again with the answers. */
void idem__task_resume(idem__task *task);
/* 2025-11-25: sends open questions on the conn of a tasks/result. */
void idem__task_send_asks(idem__task *task, idem__context *waiter);

/* subscribe.c: notifications/tasks to listeners of the task's principal that named it. */
void idem__listeners_task(idem__mcp_hub *hub, const idem__task *task, const char *task_json,
                          size_t len);

#endif
