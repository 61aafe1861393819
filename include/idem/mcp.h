/* idem/mcp.h - Model Context Protocol servers: 2024-11-05 to 2026-07-28 on one endpoint.
 *
 * A server is filled with tools, resources and prompts, then served (idem_serve in uv.h, or
 * idem_server_accept on a loop of your own). One handler serves every revision: it answers with a
 * result, a failure, a need for input or an error, and the engine encodes that for the peer in hand.
 * A handler's request follows the rules of rpc.h: answer, keep or drop it, exactly once.
 *
 * Handlers run on the thread of the loop their request came to. With several loops (idem_http_opts.workers)
 * the same handler runs on several threads at once, each with its own request; what `user` points to must
 * bear that.
 *
 * JSON given as text (schemas, annotations, icons, _meta) is checked when it is given: INVAL, and
 * `why` where there is one says what is wrong. Strings are copied. */
#ifndef IDEM_MCP_H
#define IDEM_MCP_H

#include <idem/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct idem_server idem_server;

/* ------------------------------------------------------------------ server */

typedef struct idem_server_opts {
  const char *name;    /* required */
  const char *version; /* required */
  const char *title;
  const char *description;
  const char *website_url;
  const char *icons;        /* JSON array */
  const char *instructions; /* how to use the server, for the model */
  /* Capabilities beside those of what is served, JSON objects: extensions by their names (2026-07-28),
   * {"com.example/maps":{}}, and what stands in no specification. */
  const char *extensions;
  const char *experimental;
  bool no_logging;  /* no handler sends log lines to its peer: the capability is not declared */
  size_t page_size; /* entries of a list in one answer; 0: 1,000 */
  uint64_t ttl_ms;  /* how long results may be cached (2026-07-28); 0: not at all */
  /* ... of one kind. 0: ttl_ms; IDEM_TTL_NONE: not at all. */
  uint64_t tools_ttl_ms, resources_ttl_ms, templates_ttl_ms, prompts_ttl_ms;
  uint64_t read_ttl_ms; /* what resources hold, unless the resource says otherwise */
  uint64_t discover_ttl_ms;
  bool cache_private;    /* cacheScope "private" instead of "public" */
  uint64_t input_ms;     /* how long a legacy peer may take to answer a question; 0: 10 min */
  uint64_t task_ttl_ms;  /* how long a finished task is kept; 0: 5 min */
  uint64_t task_poll_ms; /* the poll interval suggested; 0: 1,000 */
  bool no_task_status;   /* notifications/tasks/status are not sent (2025-11-25) */
  size_t max_tasks;      /* 0: 10,000 */
  size_t max_task_bytes; /* of their results, and of answers to their questions; 0: 256 MiB */
  size_t
      max_subscriptions; /* of one peer; 0: 1,000; a URI has at most 8 KiB, 256 bytes on average */
  /* Calls with a key, which happen once (idem_once): for how long a key and its answer are kept, from when it is
   * over (0: 24 h), how many there may be (0: 100,000; more are refused), and the longest answer that is kept (0: 1 MiB;
   * who comes again for a longer one is told that it ran). One principal may have `max_keys_each` of them (0: half, rounded up), so
   * that none has all; callers without a name, or with one that nobody has checked, are one. */
  uint64_t key_ms;
  size_t max_keys, max_keys_each, max_key_bytes;
  /* With a store that others share: how long after a process has died the others take what it ran for lost.
   * 0: 10 s. */
  uint64_t lease_ms;
  /* 32 bytes or more; seals requestState so that any process with the same key can open it. NULL: a
   * random key of this process. `state_key_old`, if given, is still accepted. */
  const void *state_key;
  size_t state_key_len;
  const void *state_key_old;
  size_t state_key_old_len;
  uint64_t state_ms;  /* how long a requestState is good; 0: 10 min */
  uint32_t revisions; /* which to serve: bits of idem_revision; 0: all */
  /* IDEM_CODES_ERLMCP: its numbers and texts in the revisions before 2026-07-28; else each revision's own. */
  idem_code_set codes;
  size_t max_description_bytes; /* of a tool; 0: no limit, with IDEM_CODES_ERLMCP 10,000 */
  idem_log *log;
  const idem_alloc *alloc;
  /* Randomness for ids and keys (required), and wall-clock milliseconds since 1970 for time stamps
   * and for what expires (NULL: nothing does). idem_server_os in uv.h fills in both. */
  void (*random)(void *ctx, void *bytes, size_t len);
  uint64_t (*wall_ms)(void *ctx);
  void *os_ctx;
} idem_server_opts;

#define IDEM_TTL_NONE UINT64_MAX

typedef enum idem_revision {
  IDEM_MCP_2024_11_05 = 1,
  IDEM_MCP_2025_03_26 = 2,
  IDEM_MCP_2025_06_18 = 4,
  IDEM_MCP_2025_11_25 = 8,
  IDEM_MCP_2026_07_28 = 16
} idem_revision;

/* The options are copied. INVAL: `name`, `version` or `random` is missing, and `log` says which; a program with libidem-uv has
 * forgotten idem_server_os. NOMEM. Nothing is left behind then, and *out is NULL. */
IDEM_API idem_status idem_server_new(const idem_server_opts *opts, idem_server **out);
/* After its conns and listeners. */
IDEM_API void idem_server_free(idem_server *server);

/* A conn for one peer that speaks line by line (stdio, sockets), on a loop of your own: all of a
 * server's on one thread. `opts` gives clock, hooks, pool, log; the router is the server's, and so
 * is the policy unless one is given. NOMEM. */
IDEM_API idem_status idem_server_accept(idem_server *server, const idem_conn_opts *opts,
                                        idem_conn **out);
/* The router behind it: register plain methods beside MCP's own, before serving. They can be called
 * as MCP's can: after the handshake, or with a revision in _meta. */
IDEM_API idem_router *idem_server_router(idem_server *server);
/* Serves the tools, resources, templates and prompts of `from` in place of its own, all at once; `from`
 * has the former ones after it. Requests that run finish on what they began with; peers are told of
 * the lists that really differ. `from` is a server that was never served, with the same allocator. */
IDEM_API void idem_server_replace(idem_server *server, idem_server *from);
/* Answers of such methods, in the form MCP wants: a value that is no object is sent as {"value": X},
 * and an object gets the members that the peer's revision asks for; its `_meta` is kept, and in
 * 2026-07-28 a `resultType` of its own is not. Rules and statuses of idem_reply, _mut and _json. */
IDEM_API idem_status idem_mcp_reply(idem_request *request, const yyjson_val *result);
IDEM_API idem_status idem_mcp_reply_mut(idem_request *request, const yyjson_mut_val *result);
IDEM_API idem_status idem_mcp_reply_json(idem_request *request, const char *json, size_t len);

/* ------------------------------------------------------------------- tools */

/* Scopes: words that a caller's token must have where an authorization server's tokens are shown (idem_http_opts.auth); who
 * lacks one does not see it in a list, and is refused with what is needed (403 insufficient_scope). Other callers, on stdio
 * or with a token of the listener's own, may do everything. For tools, resources and prompts they stand in the definition. Of a
 * method, one of your own too: before serving. EXISTS: it has some; INVAL: no words of visible characters; NOMEM. */
IDEM_API idem_status idem_server_require_scopes(idem_server *server, const char *method,
                                                const char *scopes);

/* `arguments` is an object (never NULL) that satisfied the tool's input schema. */
typedef void (*idem_tool_fn)(idem_request *request, yyjson_val *arguments, void *user);

typedef enum idem_task_support {
  IDEM_TASK_NEVER = 0,    /* always answered directly */
  IDEM_TASK_OPTIONAL = 1, /* becomes a task where the peer can have one */
  IDEM_TASK_REQUIRED = 2, /* refused where it cannot */
  IDEM_TASK_BY_HAND = 3   /* the handler calls idem_task_start when it wants to */
} idem_task_support;

/* Whether a call may carry a key, HTTP's Idempotency-Key or `_meta["idem/key"]`: then it runs once, and who comes
 * again with the same key and arguments gets the same answer. */
typedef enum idem_once {
  IDEM_ONCE_KEY = 0,    /* it may */
  IDEM_ONCE_ALWAYS = 1, /* it must: a call without one is refused */
  IDEM_ONCE_NEVER = 2   /* a key means nothing to this tool: it runs each time */
} idem_once;

typedef struct idem_tool {
  const char *name; /* 1 to 128 of A-Z a-z 0-9 _ . - */
  const char *title;
  const char *description;
  const char *input_schema; /* JSON Schema of type object; NULL: no arguments */
  /* JSON Schema of the structured content; NULL: none. A promise: a success without such content is
   * "Internal error" for the peer, and the log names the tool. */
  const char *output_schema;
  const char *annotations; /* JSON object: readOnlyHint, destructiveHint, ... */
  const char *icons;       /* JSON array */
  const char *meta;        /* JSON object */
  idem_task_support task;
  idem_once once;
  idem_tool_fn fn;
  void *user;
  void (*release)(
      void *user);    /* when no handler can be given `user` any more; NULL: nothing to do */
  const char *scopes; /* that the caller's token must have; NULL: none */
} idem_tool;

/* OK; EXISTS; INVAL: a bad name or schema; LIMIT: the description is longer than the server's
 * max_description_bytes, which IDEM_FAULT_DESCRIPTION_TOO_LONG tells a peer; NOMEM. `why`, may be NULL, gets a sentence. Also
 * while serving, from any thread: peers that can be told are. */
IDEM_API idem_status idem_server_add_tool(idem_server *server, const idem_tool *tool, char *why,
                                          size_t why_len);
/* OK; NOTFOUND; NOMEM. Calls that began before go on, and each thread looks up the change for itself: `user`
 * may not be freed when this returns, but when `release` is called with it. That is once, on any thread, after
 * the last call has ended; for what is never removed, with the server, and after idem_server_replace with the
 * server that has it then. It is not called where adding failed. */
IDEM_API idem_status idem_server_remove_tool(idem_server *server, const char *name);

/* Answers of a tool. Each ends the request (rules of idem_reply). A text alone is INVAL where the tool
 * has an output schema. */
IDEM_API idem_status idem_tool_text(idem_request *request, const char *text, size_t len);
/* The tool ran and failed: a text the model can act on. */
IDEM_API idem_status idem_tool_failed(idem_request *request, const char *text);

/* The answer that follows is a refusal, and nothing was done: if the call has a key, who comes again with it runs it; where
 * it is dropped since the server ends, its client is told to ask again. Any request, also one without a key. */
IDEM_API void idem_not_run(idem_request *request);

/* Any result. `content` is an array of content blocks (text, image, audio, resource, resource_link);
 * NULL gives the structured content as text, or nothing if there is none. `structured` is checked
 * against the output schema: INVAL, and the peer gets "Internal error", when it breaks it. Values are
 * borrowed; build them in idem_request_doc. */
typedef struct idem_tool_result {
  yyjson_mut_val *content;
  yyjson_mut_val *structured;
  bool is_error;
  yyjson_mut_val *meta; /* object */
} idem_tool_result;
IDEM_API idem_status idem_tool_reply(idem_request *request, const idem_tool_result *result);
/* Blocks for `content`: appended to the array; false without memory. Data is base64-encoded here. */
IDEM_API bool idem_content_text(yyjson_mut_doc *doc, yyjson_mut_val *content, const char *text,
                                size_t len);
IDEM_API bool idem_content_image(yyjson_mut_doc *doc, yyjson_mut_val *content, const void *data,
                                 size_t len, const char *mime_type);
IDEM_API bool idem_content_audio(yyjson_mut_doc *doc, yyjson_mut_val *content, const void *data,
                                 size_t len, const char *mime_type);
IDEM_API bool idem_content_resource_text(yyjson_mut_doc *doc, yyjson_mut_val *content,
                                         const char *uri, const char *mime_type, const char *text,
                                         size_t len);
IDEM_API bool idem_content_link(yyjson_mut_doc *doc, yyjson_mut_val *content, const char *uri,
                                const char *name, const char *mime_type);

/* --------------------------------------------------------------- resources */

/* Reads a resource. For a template, `idem_uri_variable` gives the values of its variables. */
typedef void (*idem_resource_fn)(idem_request *request, const char *uri, void *user);

typedef struct idem_resource {
  const char *uri; /* a URI, or (template) an RFC 6570 template of levels 1 to 4 */
  const char *name;
  const char *title;
  const char *description;
  const char *mime_type;
  const char *annotations; /* JSON object */
  const char *icons;       /* JSON array */
  const char *meta;        /* JSON object */
  int64_t size;            /* bytes; 0: not told */
  uint64_t ttl_ms; /* how long what it holds may be cached (2026-07-28); 0: as the server says */
  bool
      cache_private; /* ... by who asked alone, also where the server says "public"; so it is with scopes */
  bool is_template;
  idem_resource_fn fn;
  void *user;
  void (*release)(void *user); /* as a tool's */
  const char *scopes;          /* as a tool's */
} idem_resource;
/* Statuses, threads and `release` as for tools. */
IDEM_API idem_status idem_server_add_resource(idem_server *server, const idem_resource *resource,
                                              char *why, size_t why_len);
IDEM_API idem_status idem_server_remove_resource(idem_server *server, const char *uri);
/* Tells those who subscribed to it. From any thread. */
IDEM_API void idem_server_resource_updated(idem_server *server, const char *uri);

/* One or more contents, then the answer. mime_type may be NULL (the resource's own). */
IDEM_API idem_status idem_resource_text(idem_request *request, const char *mime_type,
                                        const char *text, size_t len);
IDEM_API idem_status idem_resource_blob(idem_request *request, const char *mime_type,
                                        const void *data, size_t len);
/* `contents` is an array of {uri, mimeType?, text | blob}. */
IDEM_API idem_status idem_resource_reply(idem_request *request, yyjson_mut_val *contents);
/* There is no such resource after all. */
IDEM_API idem_status idem_resource_missing(idem_request *request);
/* The value of a template's variable, decoded; NULL: not in the URI. */
IDEM_API const char *idem_uri_variable(idem_request *request, const char *name);

/* ----------------------------------------------------------------- prompts */

/* `arguments` is an object of strings, required ones present. */
typedef void (*idem_prompt_fn)(idem_request *request, yyjson_val *arguments, void *user);

typedef struct idem_prompt_argument {
  const char *name; /* NULL ends the list */
  const char *title;
  const char *description;
  bool required;
} idem_prompt_argument;
typedef struct idem_prompt {
  const char *name;
  const char *title;
  const char *description;
  const idem_prompt_argument *arguments; /* NULL: none */
  const char *icons;
  const char *meta;
  idem_prompt_fn fn;
  void *user;
  void (*release)(void *user); /* as a tool's */
  const char *scopes;          /* as a tool's */
} idem_prompt;
IDEM_API idem_status idem_server_add_prompt(idem_server *server, const idem_prompt *prompt,
                                            char *why, size_t why_len);
IDEM_API idem_status idem_server_remove_prompt(idem_server *server, const char *name);

/* One user message of text, or any messages: an array of {role, content}. */
IDEM_API idem_status idem_prompt_text(idem_request *request, const char *text, size_t len);
IDEM_API idem_status idem_prompt_reply(idem_request *request, const char *description,
                                       yyjson_mut_val *messages);

/* ------------------------------------------------------------- named faults */

/* Faults with a name; their code follows the policy's code set, or that of the peer's revision. Also for
 * requests that are not MCP's. */
typedef enum idem_fault {
  IDEM_FAULT_RESOURCE_NOT_FOUND = 0,   /* subject: the uri */
  IDEM_FAULT_TOOL_NOT_FOUND = 1,       /* the tool's name */
  IDEM_FAULT_PROMPT_NOT_FOUND = 2,     /* the prompt's name */
  IDEM_FAULT_CAPABILITY = 3,           /* the capability's name */
  IDEM_FAULT_NOT_INITIALIZED = 4,      /* no subject */
  IDEM_FAULT_SUBSCRIPTION = 5,         /* the uri */
  IDEM_FAULT_VALIDATION = 6,           /* details */
  IDEM_FAULT_TRANSPORT = 7,            /* no subject */
  IDEM_FAULT_TIMEOUT = 8,              /* no subject */
  IDEM_FAULT_RATE_LIMITED = 9,         /* no subject */
  IDEM_FAULT_DESCRIPTION_TOO_LONG = 10 /* the tool's name */
} idem_fault;
IDEM_API idem_status idem_reply_fault(idem_request *request, idem_fault fault, const char *subject);

/* -------------------------------------------------------------- completion */

typedef struct idem_completion_query {
  const char *prompt; /* one of the two */
  const char *uri_template;
  const char *argument;
  const char *value;   /* what has been typed */
  yyjson_val *context; /* other arguments given so far: an object, or NULL */
} idem_completion_query;
typedef void (*idem_completion_fn)(idem_request *request, const idem_completion_query *query,
                                   void *user);
/* Who completes arguments; declares the capability. */
IDEM_API void idem_server_on_complete(idem_server *server, idem_completion_fn fn, void *user);
/* At most 100 values are sent. */
IDEM_API idem_status idem_completion_reply(idem_request *request, const char *const *values,
                                           size_t count, bool has_more);

/* ------------------------------------------------- inside a handler: telling */

/* Sent to a peer that asked for it, and only when it is more than the last time. Of a task it goes to the session
 * that began it (2025-11-25), until the task is over. */
IDEM_API void idem_progress(idem_request *request, double progress, double total,
                            const char *message); /* total 0: unknown */
typedef enum idem_mcp_level {
  IDEM_MCP_DEBUG = 0,
  IDEM_MCP_INFO = 1,
  IDEM_MCP_NOTICE = 2,
  IDEM_MCP_WARNING = 3,
  IDEM_MCP_ERROR = 4,
  IDEM_MCP_CRITICAL = 5,
  IDEM_MCP_ALERT = 6,
  IDEM_MCP_EMERGENCY = 7
} idem_mcp_level;
/* A log line for the peer, not for our own log: from the level it asked for; a legacy peer that set
 * none gets info and above, another nothing. `logger` may be NULL. */
IDEM_API void idem_mcp_log(idem_request *request, idem_mcp_level level, const char *logger,
                           const char *text);
/* ... whose data is any JSON value, given as text. INVAL: it is none. */
IDEM_API idem_status idem_mcp_log_json(idem_request *request, idem_mcp_level level,
                                       const char *logger, const char *json, size_t len);
/* A line outside any request, for every legacy peer whose level lets it through; over HTTP on its GET
 * stream. 2026-07-28 knows log lines of requests alone. From any thread. INVAL: no JSON; NOMEM; LIMIT: more
 * than 1,000 lines, or 4 MiB of them, wait to be told. */
IDEM_API idem_status idem_server_log(idem_server *server, idem_mcp_level level, const char *logger,
                                     const char *json, size_t len);
/* Asks a peer of a legacy session whether it is there. `fn` hears IDEM_OK, or TIMEOUT when nothing came for
 * `timeout_ms` (0: 30 s). Over HTTP the conn is a request's (idem_request_conn), whose event stream carries
 * it. STATE: there is no session, no ping in its revision, or no way to reach the peer; else statuses of
 * idem_call. */
IDEM_API idem_status idem_mcp_ping(idem_conn *conn, uint64_t timeout_ms, idem_response_fn fn,
                                   void *user);

/* Over HTTP, in a legacy session: closes the event stream that waits for this request's answer. The
 * client comes back for it (Last-Event-ID). Saves connections while work takes long; elsewhere, and where
 * no event was sent that the client could come back after (before 2025-11-25), it does nothing. */
IDEM_API void idem_leave_stream(idem_request *request);

/* -------------------------------------------------- inside a handler: asking */

/* What a handler needs from the user or the model before it can go on. */
typedef enum idem_ask_kind {
  IDEM_ASK_FORM = 0,     /* elicitation: message and a flat schema */
  IDEM_ASK_URL = 1,      /* elicitation: message and a URL to visit */
  IDEM_ASK_SAMPLING = 2, /* params of sampling/createMessage */
  IDEM_ASK_ROOTS = 3
} idem_ask_kind;
typedef struct idem_ask {
  const char *key; /* names the answer; unique among the asks of one request */
  idem_ask_kind kind;
  const char *message;
  /* FORM: JSON Schema text of type object whose properties are strings, numbers, booleans or choices
   * (enum, oneOf with titles, arrays of them), nothing nested. NULL: nothing to fill in */
  const char *schema;
  const char *url;            /* URL: absolute */
  const char *elicitation_id; /* URL: for idem_server_elicitation_complete; NULL: a random one */
  const char *params;         /* SAMPLING: JSON object text with messages and maxTokens */
} idem_ask;
/* Ends this run of the handler: do not touch the request after it. When the answers are there the
 * handler is called again with the same arguments, nothing else left of the run before:
 * idem_answer_to gives the answers, idem_state what was put into `state`.
 *
 * Questions are checked first. One that the peer's revision or capabilities do not allow is refused
 * with an error the peer understands (-32021 in 2026-07-28, a failed tool before): sampling with
 * `tools` or `includeContext` that were not declared, a choice of several before 2025-11-25. What an
 * older revision says otherwise is converted: titled choices, several blocks in one message. INVAL: a
 * question that is none (a nested form, params without messages, a key twice); the log says what is
 * wrong, the peer gets "Internal error". */
IDEM_API idem_status idem_needs_input(idem_request *request, const idem_ask *asks, size_t count,
                                      const void *state, size_t state_len);
/* Refuses the request until the user has been to these addresses (asks of IDEM_ASK_URL); the client
 * tries again by itself: -32042 with the list in 2025-11-25, idem_needs_input in 2026-07-28, and before,
 * or where the client cannot open addresses, a failure. Statuses of idem_needs_input. */
IDEM_API idem_status idem_requires_url(idem_request *request, const idem_ask *asks, size_t count);
/* What a URL was visited for is done: the client that was asked to (2025-11-25), and no other, is told by
 * notifications/elicitation/complete, once. Whether it was the right user who went there is yours to
 * verify before. From any thread. NOTFOUND: nobody was asked in this process, or it was told already (those
 * who share the store look, too), or 10,000 were asked since; NOMEM, LIMIT as idem_server_log. */
IDEM_API idem_status idem_server_elicitation_complete(idem_server *server,
                                                      const char *elicitation_id);
/* True if the peer can be asked this. */
IDEM_API bool idem_can_ask(const idem_request *request, idem_ask_kind kind);
/* The answer to an ask of the round before: {action, content?}, {role, content, model} or {roots}, of
 * the right shape; `content` of a form that was accepted fits its schema. NULL: not given, ask (again).
 * A client that could not answer, or answered what does not fit: before 2026-07-28 {"error": {code,
 * message}} takes the answer's place, for a form or URL with the action "cancel" beside it; in
 * 2026-07-28 it has not answered. */
IDEM_API yyjson_val *idem_answer_to(const idem_request *request, const char *key);
/* The same in one word. */
typedef enum idem_answer_kind {
  IDEM_ANSWER_NONE = 0,    /* not given: first run, not asked, or it did not fit (2026-07-28) */
  IDEM_ANSWER_GIVEN = 1,   /* accepted, sampled, listed */
  IDEM_ANSWER_REFUSED = 2, /* the user said no: "decline", "cancel", or the error code -1 */
  IDEM_ANSWER_FAILED = 3   /* an error of the client's, nothing in time, or what does not fit */
} idem_answer_kind;
typedef struct idem_answer_error {
  int64_t code;        /* 0: there is no error */
  const char *message; /* the client's, not yet escaped; "" where there is none */
} idem_answer_error;
/* `error`, which may be NULL, is filled for what failed or was refused by an error. */
IDEM_API idem_answer_kind idem_answer_of(const idem_request *request, const char *key,
                                         idem_answer_error *error);
/* What was kept since the round before; NULL: nothing, or this is the first. The peer cannot change
 * it, but it can read it. */
IDEM_API const void *idem_state(const idem_request *request, size_t *len);
/* Refuses the request because the peer lacks a capability: JSON object text, {"sampling":{}}. */
IDEM_API idem_status idem_requires(idem_request *request, const char *capabilities);

/* ------------------------------------------------------------------- tasks */

/* Turns the request into a task: the peer gets its id now, the handler goes on, and its answer
 * becomes the task's result. The request has no conn from then on. STATE: the peer cannot have tasks,
 * or it is one already; LIMIT: max_tasks are alive, or so much work; NOMEM. The request is then as it was:
 * answer directly. The function of idem_request_on_cancel is called when the peer cancels the task (PEER)
 * and when the loop ends (CLOSED). */
IDEM_API idem_status idem_task_start(idem_request *request);
IDEM_API bool idem_can_task(const idem_request *request);
/* A line for who polls; in 2025-11-25 the session that began the task is told of it, as of each change of its
 * status (notifications/tasks/status). */
IDEM_API void idem_task_status(idem_request *request, const char *message);

/* ----------------------------------------------------------- who is asking */

/* These, and the other questions about a request above, may be asked of any request. One that is not MCP's has
 * nothing: "", 0, NULL or false. */

/* The authenticated principal, "" when there is none. */
IDEM_API const char *idem_principal(const idem_request *request);
/* What the caller's token says (idem_http_opts.auth): a claim by its name. NULL: it does not, or there is none. Valid as long as
 * the request. */
IDEM_API yyjson_val *idem_claim(const idem_request *request, const char *name);
/* What the log shows of their claims (idem_http_auth.log_claims), for a line of yours: " name=word" for each, "" for none. */
IDEM_API const char *idem_logged_claims(const idem_request *request);
/* Whether it has all of these scopes; true for callers who show no such token. */
IDEM_API bool idem_has_scopes(const idem_request *request, const char *scopes);
IDEM_API idem_revision idem_request_revision(const idem_request *request);
/* The request's _meta, or NULL. traceparent, tracestate and baggage are in it. */
IDEM_API yyjson_val *idem_request_meta(const idem_request *request);
/* clientInfo and clientCapabilities as the peer gave them, or NULL. */
IDEM_API yyjson_val *idem_peer_info(const idem_request *request);
IDEM_API yyjson_val *idem_peer_capabilities(const idem_request *request);

/* ------------------------------------------------------------- who asks */

/* For those who share something out among clients. */
/* Two askers are the same client when `thing`, `len` and `bytes` are. */
typedef struct idem_client_identity {
  const void *thing; /* a session or a connection; only ever compared */
  const void *bytes; /* a principal's name or an address; lent as long as the request */
  size_t len;
} idem_client_identity;

/* A principal whose name was checked; without one a session, which several connections may share; without that the
 * connection, or over HTTP, where each request has its own, the address it came from: behind a trusted
 * proxy the one that the proxy names. For requests of any profile. */
IDEM_API idem_client_identity idem_request_client(const idem_request *request);

#ifdef __cplusplus
}
#endif
#endif
