/* idem/mcp_client.h - Model Context Protocol clients: 2024-11-05 to 2026-07-28, the era found by asking.
 *
 * A client is one server seen from the asking side. Connect (idem_mcp_connect on libuv, or
 * idem_mcp_client_open on a loop of your own); when it is ready, ask. One function a question, whatever the
 * server's revision: the engine writes the handshake or the _meta, answers the server's questions by
 * your handlers, goes through rounds and tasks, and ends every call exactly once.
 *
 * The rules of rpc.h hold: what you pass in is borrowed for the call, what a function of yours is given is lent
 * until it returns, a call's function runs exactly once and never from inside the function that
 * started it. A client and its calls belong to one thread.
 *
 * Nothing a server sends is trusted: lists, rounds, tasks, questions, texts are bounded by the options, a schema's
 * references are never fetched, and texts are handed out as they came: escape them before a terminal sees
 * them. */
#ifndef IDEM_MCP_CLIENT_H
#define IDEM_MCP_CLIENT_H

#include <idem/mcp.h>
#include <idem/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* libuv's loop, see uv.h; and how to get somewhere, see http.h. */
typedef struct uv_loop_s uv_loop_t;
typedef struct idem_client_opts idem_client_opts;

typedef struct idem_mcp_client idem_mcp_client;

/* ------------------------------------------------------------- how a call ended */

/* What is known about what the server did. */
typedef enum idem_mcp_fate {
  IDEM_MCP_ANSWERED = 0, /* it answered, with a result or an error */
  IDEM_MCP_NOT_SENT = 1, /* it was never asked: nothing happened there */
  IDEM_MCP_UNKNOWN = 2,  /* it was or may have been asked, and may have done it */
  /* The server answered, and says that nobody knows (REMOTE, data.reason is "outcome-unknown"): a call with a key was begun
   * there and broken off. It may have done all, a part or nothing; whoever asks again with the same key hears
   * the same. Look at what the tool did, then ask with another key or leave it. */
  IDEM_MCP_OUTCOME_UNKNOWN = 3
} idem_mcp_fate;

/* Lent for the callback. */
typedef struct idem_mcp_result {
  /* OK. REMOTE: the server's error, in code, message and data. TIMEOUT: idle_ms or deadline_ms. CANCELLED.
   * CLOSED: the connection is lost or closed. PROTO: what came is no answer to this, or its structured
   * content breaks the tool's output schema. LIMIT: a bound of the options. SYS: the server cannot be
   * reached. STATE: the server's revision or capabilities do not have it. INVAL: the tool must not be
   * called (see idem_mcp_tool_fault). NOMEM. */
  idem_status status;
  idem_mcp_fate fate;
  uint64_t call;
  const char *message; /* REMOTE: the server's; else a sentence for people, or NULL */
  size_t message_len;
  int64_t code;     /* REMOTE */
  yyjson_val *data; /* REMOTE; may be NULL */
  int http_status;  /* of the answer; 0: none, or not HTTP */
  yyjson_val
      *result; /* OK: the result object (of a list, the last page's). PROTO: may be there, too */
  /* idem_mcp_call_tool, and a tool's task: */
  bool is_error;          /* the tool ran and said that it failed; status is OK */
  yyjson_val *content;    /* array of blocks, or NULL */
  yyjson_val *structured; /* or NULL */
  /* A call that became a task and has `detach`, and the task functions: the task's object, of either form; its
   * id is in it as taskId. */
  yyjson_val *task;
  /* Lists: all pages as one array, without what idem_mcp_tool_fault refuses. */
  yyjson_val *items;
  bool from_cache; /* nothing was asked: the list, or the resource, was fresh */
  /* A call of a tool that carried a key: the key; how often it was repeated; whether this is the answer that was given to it
   * before, or to another call with its key. */
  const char *key; /* NULL: none */
  unsigned repeats;
  bool replayed;
  /* idem_mcp_load_skill: the verified bytes. */
  const char *skill_text;
  size_t skill_len;
} idem_mcp_result;
typedef void (*idem_mcp_result_fn)(idem_mcp_client *client, const idem_mcp_result *result,
                                   void *user);

/* ------------------------------------------------------------------- questions */

/* Something the server wants from the user or the model. It is owed exactly one answer: give it inside your
 * function, or keep the question and give it later. One that was neither answered nor kept is refused by the
 * engine. It may outlive its call and its client; the answer then goes nowhere. */
typedef struct idem_mcp_question idem_mcp_question;
typedef void (*idem_mcp_question_fn)(idem_mcp_client *client, idem_mcp_question *question,
                                     void *user);

/* IDEM_ASK_FORM, _URL or _SAMPLING (mcp.h). */
IDEM_API idem_ask_kind idem_mcp_question_kind(const idem_mcp_question *question);
/* The params as the server sent them: message, requestedSchema, url; messages, maxTokens, ... Valid until the
 * answer. */
IDEM_API yyjson_val *idem_mcp_question_params(const idem_mcp_question *question);
/* The call it came up in; 0: not known, or it is over. */
IDEM_API uint64_t idem_mcp_question_call(const idem_mcp_question *question);
/* Whether an answer would still reach anybody. */
IDEM_API bool idem_mcp_question_open(const idem_mcp_question *question);
IDEM_API void idem_mcp_question_keep(idem_mcp_question *question);
/* These end the question unless they fail with INVAL; without memory (NOMEM) the server hears that the user went away.
 * Accepts a form or URL. `content` (NULL: nothing filled in; URL: ignored) is an object; what it lacks and
 * the form has a default for is filled in. INVAL: it does not fit the form, and `why` (may be NULL) gets a
 * sentence; the question waits on. */
IDEM_API idem_status idem_mcp_accept(idem_mcp_question *question, const yyjson_mut_val *content,
                                     char *why, size_t why_len);
/* The user said no, or went away without a word. For sampling both refuse it. */
IDEM_API idem_status idem_mcp_decline(idem_mcp_question *question);
IDEM_API idem_status idem_mcp_dismiss(idem_mcp_question *question);
/* What the model said: {role, content, model, stopReason?}. INVAL: it is not such an object. */
IDEM_API idem_status idem_mcp_sampled(idem_mcp_question *question, const yyjson_mut_val *result);

/* ----------------------------------------------------------- what a client hears */

typedef enum idem_mcp_list_kind {
  IDEM_MCP_TOOLS = 0,
  IDEM_MCP_RESOURCES = 1,
  IDEM_MCP_TEMPLATES = 2,
  IDEM_MCP_PROMPTS = 3
} idem_mcp_list_kind;

typedef struct idem_mcp_progress {
  uint64_t call;
  double progress;
  double total;        /* 0: unknown */
  const char *message; /* not NUL-terminated; NULL: none. Of a task: its status message */
  size_t message_len;
  const char *task_status; /* "working", "input_required": the call is a task; else NULL */
} idem_mcp_progress;

typedef struct idem_mcp_log_line {
  idem_mcp_level level;
  const char *logger; /* NULL: none; not NUL-terminated */
  size_t logger_len;
  yyjson_val *data; /* a string, or anything; NULL: the server sent none */
} idem_mcp_log_line;

/* Something that is not as the protocol has it. The client goes on; nothing is answered to it. */
typedef struct idem_mcp_problem {
  const char
      *what; /* a constant: "something that is no message", "a response with an unknown id" */
  const char *detail; /* NUL-terminated, or NULL */
  const char *
      bytes; /* of a program's or socket's stray output: the line, at most 4,096 bytes; else NULL */
  size_t bytes_len;
} idem_mcp_problem;

typedef enum idem_mcp_traffic_kind {
  IDEM_MCP_TRAFFIC_MESSAGE = 0, /* a message, or what was sent in place of one, unframed */
  IDEM_MCP_TRAFFIC_HEAD = 1 /* the head of an HTTP request or answer; credentials are left out */
} idem_mcp_traffic_kind;
typedef struct idem_mcp_traffic {
  idem_mcp_traffic_kind kind;
  idem_direction direction; /* IDEM_OUT: to the server */
  uint64_t at_ns;           /* by the clock of the conn */
  const char *data;
  size_t len;
} idem_mcp_traffic;

/* A call with a key whose connection broke, or whose server was not available (see idem_mcp_call_opts.key). It is asked again after a
 * pause, with the same key. Lent for the call. */
typedef struct idem_mcp_repeat {
  uint64_t call;
  const char *key;
  unsigned count;     /* which repetition it will be, from 1 */
  uint64_t after_ms;  /* from now */
  idem_status status; /* what went wrong, as idem_mcp_result's */
  int http_status;    /* 0: none */
  const char *why;    /* a sentence, not NUL-terminated; NULL: none */
  size_t why_len;
} idem_mcp_repeat;

/* What is known when a client cannot connect, or has lost its server. What it points to is lent. */
typedef enum idem_mcp_phase {
  IDEM_MCP_PHASE_CONNECT = 0,   /* reaching it: the program, the name, the socket, TLS */
  IDEM_MCP_PHASE_DISCOVER = 1,  /* server/discover */
  IDEM_MCP_PHASE_HANDSHAKE = 2, /* initialize */
  IDEM_MCP_PHASE_READY = 3      /* it was ready before */
} idem_mcp_phase;
typedef struct idem_mcp_trouble {
  idem_status status; /* as idem_mcp_result's */
  idem_mcp_phase phase;
  const char
      *text; /* one line: "exit status 3", "HTTP 404 Not Found", the server's message; never NULL */
  int64_t code;       /* of the server's error; 0: none */
  int http_status;    /* 0: none */
  int exit_status;    /* of a program; -1: it did not exit by itself, or there is none */
  int signal;         /* that ended a program; 0: none */
  const char *errors; /* the last bytes of its stderr, at most 4,096; NULL: no program */
  size_t errors_len;
  const char *stray; /* the first bytes that were no message, at most 256; NULL: none */
  size_t stray_len;
  size_t not_sent;  /* calls in flight that were certainly not sent, */
  size_t unknown;   /* and those that the server may have carried out */
  const char *data; /* of the server's error, as JSON; NULL: none, or more than 4,096 bytes */
  size_t data_len;
} idem_mcp_trouble;

/* An HTTP request that was refused with 401 or 403. It waits until you say how to go on; of the times of its call only
 * deadline_ms runs meanwhile. */
typedef struct idem_mcp_refusal idem_mcp_refusal;
IDEM_API int idem_mcp_refusal_status(const idem_mcp_refusal *refusal);
IDEM_API const char *idem_mcp_refusal_url(const idem_mcp_refusal *refusal);
/* The header of that name ("WWW-Authenticate"), the index-th of several; NULL: there are no more. */
IDEM_API const char *idem_mcp_refusal_header(const idem_mcp_refusal *refusal, const char *name,
                                             size_t index);
/* How often this request was refused, this time included. */
IDEM_API unsigned idem_mcp_refusal_count(const idem_mcp_refusal *refusal);
/* It was sent before other headers were given by idem_mcp_refusal_retry: those may be good enough for it. */
IDEM_API bool idem_mcp_refusal_outdated(const idem_mcp_refusal *refusal);
/* Call before your function returns to decide later; then retry or give up, once. */
IDEM_API void idem_mcp_refusal_keep(idem_mcp_refusal *refusal);
/* Sends it again. From now on every request of the client carries these "Name: value" lines (ends with NULL),
 * instead of what it had under the same names. INVAL: not such lines; the refusal waits on. At the fifth refusal
 * of one request it is given up all the same. Ends the refusal, as give_up does. */
IDEM_API idem_status idem_mcp_refusal_retry(idem_mcp_refusal *refusal, const char *const *headers);
IDEM_API void idem_mcp_refusal_give_up(idem_mcp_refusal *refusal);
/* It asked merely what it takes: retry gives its headers to the requests to come, and this one ends as it was refused. */
IDEM_API void idem_mcp_refusal_not_again(idem_mcp_refusal *refusal);

/* An HTTP request that is about to be sent, for who adds a header to it alone (a proof). Lent for the call. */
typedef struct idem_mcp_sending idem_mcp_sending;
IDEM_API const char *idem_mcp_sending_method(const idem_mcp_sending *sending); /* "POST" */
IDEM_API const char *idem_mcp_sending_url(const idem_mcp_sending *sending);
/* "Name: value". INVAL: no such line; NOMEM: it is not sent. */
IDEM_API idem_status idem_mcp_sending_add(idem_mcp_sending *sending, const char *line);

/* The head of an answer to one, whatever its status. Lent for the call. */
typedef struct idem_mcp_answered idem_mcp_answered;
IDEM_API int idem_mcp_answered_status(const idem_mcp_answered *answered);
/* As idem_mcp_refusal_header, of any name. */
IDEM_API const char *idem_mcp_answered_header(const idem_mcp_answered *answered, const char *name,
                                              size_t index);

/* --------------------------------------------------------------------- options */

/* Zero means the default. Strings are copied. */
typedef struct idem_mcp_client_opts {
  const char *name;    /* who asks; NULL: "idem" and its version */
  const char *version; /* with a name: required */
  const char *title;
  uint32_t revisions; /* which to speak: bits of idem_revision; 0: all */
  /* What the server spoke at an earlier connection; 0: not known. An older one is then asked for initialize first, and
   * probed only if it refuses that; for 2026-07-28 see at_once. */
  idem_revision known;
  /* HTTP and 2026-07-28, with `known`: not even server/discover is asked, the client is ready at once and
   * knows nothing of the server. Where that turns out wrong, calls fail. */
  bool at_once;
  uint64_t
      probe_ms; /* silence after which a program or socket is taken for an older one; 0: 5,000 */
  uint64_t handshake_ms; /* for each step of the handshake; 0: 30,000 */
  uint64_t idle_ms;      /* of calls, see idem_mcp_call_opts; 0: 60,000 */
  uint64_t deadline_ms;  /* of calls; 0: none */
  size_t max_calls;      /* under way at once; 0: 4,096 */
  size_t max_items;      /* of a list, over its pages; 0: 10,000 */
  size_t max_pages;      /* of a list; 0: 1,000 */
  size_t max_list_bytes; /* of a list as text; 0: 32 MiB */
  unsigned max_rounds;   /* of questions in one call; 0: 10 */
  size_t max_questions;  /* open at once; 0: 64 */
  size_t message_bytes;  /* one message of the server's; 0: 64 MiB */
  /* Of resources that were read and are fresh, in all (2026-07-28: ttlMs; a quarter of it for one); 0: 8 MiB */
  size_t max_cache_bytes;
  /* Handlers declare their capability. Sampling: what it may ask for beyond text. */
  idem_mcp_question_fn on_form;
  idem_mcp_question_fn on_url;
  idem_mcp_question_fn on_sampling;
  bool sampling_tools;
  bool sampling_context;
  /* Calls of tools that happen once, see idem_mcp_call_opts.key. */
  bool no_keys;         /* no key but the program's own is sent, and nothing is repeated */
  unsigned max_repeats; /* of one call, until the server has said something to it; 0: 16 */
  uint64_t repeat_ms;   /* after a break, for all its repetitions; 0: 30,000 */
  /* With at_once: what idem_mcp_client_keys said at an earlier connection; NULL: the server knows no keys. Copied. */
  const char *known_keys;
  bool roots; /* there are roots: see idem_mcp_client_set_roots */
  bool tasks; /* tasks of 2026-07-28 are understood: calls go through them to their end */
  const char *extensions;   /* JSON object: more extensions to declare (2026-07-28) */
  const char *experimental; /* JSON object */
  /* Observers; all may be NULL. A client may be closed in them, and calls made. */
  void (*on_log)(idem_mcp_client *client, const idem_mcp_log_line *line, void *user);
  /* A list the client has cached is stale by then. Templates change with resources. */
  void (*on_list_changed)(idem_mcp_client *client, idem_mcp_list_kind kind, void *user);
  void (*on_resource_updated)(idem_mcp_client *client, const char *uri, size_t len, void *user);
  /* A task has changed, of its own accord: notifications/tasks and tasks/status; its object. */
  void (*on_task)(idem_mcp_client *client, yyjson_val *task, void *user);
  /* A URL elicitation is over on the server's side (2025-11-25). */
  void (*on_url_done)(idem_mcp_client *client, const char *elicitation_id, size_t len, void *user);
  /* Any other notification. */
  void (*on_notification)(idem_mcp_client *client, const char *method, size_t len,
                          yyjson_val *params, void *user);
  void (*on_problem)(idem_mcp_client *client, const idem_mcp_problem *problem, void *user);
  void (*on_traffic)(idem_mcp_client *client, const idem_mcp_traffic *traffic, void *user);
  void (*on_refused)(idem_mcp_client *client, idem_mcp_refusal *refusal, void *user);
  /* Of every HTTP request, streams and the goodbye included. Do nothing with the client here. */
  void (*on_sending)(idem_mcp_client *client, idem_mcp_sending *sending, void *user);
  /* Of every HTTP answer as its head comes, of those that are refused later, too. Do nothing with the client here. */
  void (*on_answered)(idem_mcp_client *client, const idem_mcp_answered *answered, void *user);
  /* A call is repeated by itself, after a pause. It may be cancelled here. */
  void (*on_repeat)(idem_mcp_client *client, const idem_mcp_repeat *repeat, void *user);
  /* The server is lost, after the calls in flight have ended; not after a close of yours. */
  void (*on_lost)(idem_mcp_client *client, const idem_mcp_trouble *trouble, void *user);
  /* idem_mcp_connect alone: how to get there, and a program's stderr as it comes. */
  const idem_client_opts *wire; /* headers, trust, proxy, time, a program; copied */
  void (*on_stderr)(idem_mcp_client *client, const char *data, size_t len, void *user);
  /* The client was ready once and is over: the last moment it may be used. */
  void (*on_close)(idem_mcp_client *client, void *user);
  idem_metrics *metrics;
  void *user; /* of all these functions */
  idem_log *log;
  const idem_alloc *alloc;
  uint64_t seed; /* as in idem_router_opts; idem_mcp_connect brings its own */
  /* Randomness for keys, which nobody may guess; NULL: the client makes none. idem_mcp_connect brings its own. */
  void (*random)(void *ctx, void *bytes, size_t len);
  void *random_ctx;
} idem_mcp_client_opts;

/* ------------------------------------------------------------------ connecting */

/* Runs once, never from inside what started it. OK: the client is ready. Else ask idem_mcp_client_trouble; a
 * client of idem_mcp_connect is gone when this returns, and on_close is not called. */
typedef void (*idem_mcp_ready_fn)(idem_mcp_client *client, idem_status status, void *user);

/* Connects on `loop` to what idem_connect (uv.h) connects to: "exec:" with opts->wire->argv, "http://" and "https://"
 * (Streamable HTTP of both eras, and HTTP+SSE of 2024-11-05 where the server has no other), "unix:",
 * "tcp://", "tls://", "ws://", "wss://". Finds the server's era: server/discover first, initialize where the answer
 * is not a modern one; a program that ends or stays silent at that is started again (ends) or
 * asked the older way (silent). Statuses as for idem_connect, and INVAL: options that cannot be; on_ready then does not
 * run. The client (`out` may be NULL) lives until on_close or a failing on_ready has returned. */
IDEM_API idem_status idem_mcp_connect(uv_loop_t *loop, const char *url,
                                      const idem_mcp_client_opts *opts, idem_mcp_ready_fn on_ready,
                                      void *user, idem_mcp_client **out);
/* Ends it: open calls end with CANCELLED, questions close, a legacy session over HTTP is deleted, a program's
 * input ends. Allowed anywhere, also before the client is ready (on_ready then runs with CANCELLED). Of a client
 * of your own loop the conn is closed; free both. */
IDEM_API void idem_mcp_client_close(idem_mcp_client *client);

/* On a loop of your own: a client, then its conn, to feed and to take chunks from as any conn of rpc.h
 * (line framing unless `policy` says otherwise; the router is the client's; time-outs need now_ns). The client asks as
 * soon as the conn is there; on_ready runs while the conn is fed or expired. INVAL, NOMEM; STATE: it has
 * a conn. A client may be freed before or after its conn, not inside one of its functions. */
IDEM_API idem_status idem_mcp_client_new(const idem_mcp_client_opts *opts, idem_mcp_client **out);
IDEM_API idem_status idem_mcp_client_open(idem_mcp_client *client, const idem_conn_opts *opts,
                                          idem_mcp_ready_fn on_ready, void *user, idem_conn **out);
IDEM_API void idem_mcp_client_free(idem_mcp_client *client);

/* --------------------------------------------------------- what is known of it */

IDEM_API void *idem_mcp_client_user(const idem_mcp_client *client);
IDEM_API idem_conn *idem_mcp_client_conn(const idem_mcp_client *client); /* NULL: none (any more) */
IDEM_API bool idem_mcp_client_ready(const idem_mcp_client *client);
/* 0 before it is ready. */
IDEM_API idem_revision idem_mcp_client_revision(const idem_mcp_client *client);
/* "2025-11-25"; "" before it is ready. */
IDEM_API const char *idem_mcp_revision_date(idem_revision revision);
/* name, version, ...; what the server said of itself, lent until the client is gone or shakes hands again; or
 * NULL. */
IDEM_API yyjson_val *idem_mcp_client_server_info(const idem_mcp_client *client);
IDEM_API yyjson_val *idem_mcp_client_capabilities(const idem_mcp_client *client);
/* Not NUL-terminated; NULL: none. */
IDEM_API const char *idem_mcp_client_instructions(const idem_mcp_client *client, size_t *len);
/* Whether it declares this: "tools", "resources.subscribe", "extensions.io.modelcontextprotocol/tasks" is asked by
 * member names one after the other, NULL at the end. */
IDEM_API bool idem_mcp_client_declares(const idem_mcp_client *client, const char *const *path);
/* Whether calls with a key happen once there: the name of where the server keeps its keys, which is another one when it has lost
 * them; "": it does not say. NULL: it knows no keys. Lent as the capabilities are. */
IDEM_API const char *idem_mcp_client_keys(const idem_mcp_client *client);
/* What went wrong last. Lent until the next call of anything. */
IDEM_API idem_mcp_trouble idem_mcp_client_trouble(const idem_mcp_client *client);
/* Why the tool of that name must not be called over this connection (2026-07-28 over HTTP: its x-mcp-header
 * annotations are not valid), or NULL: it may, or is not known. For looking through: the index-th such tool. */
IDEM_API const char *idem_mcp_tool_fault(const idem_mcp_client *client, const char *name);
IDEM_API const char *idem_mcp_tool_refused(const idem_mcp_client *client, size_t index,
                                           const char **why);
/* What tools/list said at an earlier connection: {"tools": [...]}, good for `fresh_ms` more. Spares calls that need to
 * know a tool's schema (2026-07-28 over HTTP) the question. INVAL: not such a text; NOMEM, LIMIT. */
IDEM_API idem_status idem_mcp_client_learn_tools(idem_mcp_client *client, const char *json,
                                                 size_t len, uint64_t fresh_ms);

/* -------------------------------------------------------------------- calling */

typedef struct idem_mcp_call_opts {
  /* Without an answer, progress, or a message of this call's; 0: the client's; UINT64_MAX: no limit. It stands
   * still while a question is with your handler. */
  uint64_t idle_ms;
  uint64_t
      deadline_ms; /* in all, rounds and tasks included; 0: the client's; UINT64_MAX: no limit */
  void (*on_progress)(idem_mcp_client *client, const idem_mcp_progress *progress, void *user);
  const char *meta; /* JSON object: more members of _meta, such as traceparent */
  /* tools/call alone: with this key, 1 to 255 visible ASCII characters, it happens once, however often it is asked. NULL: the client
   * makes one, that nobody can guess, where the server says that it knows keys (experimental: "idem/once") and the tool is not known to
   * be read-only.
   * A call with a key, over HTTP, to a server that says where it keeps its keys is repeated by itself when its connection breaks
   * or nobody takes it (HTTP 502, 503, 504, or the reason "unavailable"): after 100 ms, twice that, and so on up to 5 s, each
   * shorter by up to a half, and not before the server's Retry-After; at most max_repeats times within repeat_ms, the last one at their end. A
   * connection on which nothing comes is given up in the same way as long as idle_ms, which goes on over these repetitions, is not over. The server then gives the answer that
   * was lost, waits for the call that still runs, runs what it never got, or says that the outcome is unknown
   * (IDEM_MCP_OUTCOME_UNKNOWN); a server that has lost its keys meanwhile says that as well. Session and credentials are made anew
   * as for any call. While it waits to be repeated deadline_ms runs, idle_ms does not. A call that is given up (cancelled, or its
   * time is over) is cancelled at the server by its key. On other transports the key is sent, and the end of the connection ends
   * the call: who connects again may ask again with result->key. */
  const char *key;
  /* Where this was called before with `key`, as idem_mcp_client_keys said there: the call is a repetition from the first, and a server
   * that keeps its keys elsewhere, or has lost them, says that the outcome is unknown instead of running it again. For who was
   * ended, or gave up, and asks later. INVAL: without `key`, or no such name. NULL, "": it is called for the first
   * time. A server that knows no keys runs it all the same: see idem_mcp_client_keys. */
  const char *key_store;
  bool no_key;          /* none, and it is not repeated */
  bool fresh;           /* lists and resources: ask, whatever is cached */
  bool task;            /* 2025-11-25: as a task, where the server can */
  uint64_t task_ttl_ms; /* how long it shall keep it; 0: its own choice */
  bool detach;          /* of a call that became a task: end with the task, not with its outcome */
} idem_mcp_call_opts;

/* Each asks; opts and call may be NULL, fn, too. `call` gets a handle for idem_mcp_cancel. On failure fn will not run: STATE:
 * the client is not ready, or the server's revision has no such method; INVAL: not such JSON;
 * LIMIT: max_calls, or too much queued; NOMEM; CLOSED. Whether the server declared a capability is its own
 * business: it answers. */

/* Every page of a list, in items. A fresh list is not asked for again (2026-07-28: ttlMs). */
IDEM_API idem_status idem_mcp_list(idem_mcp_client *client, idem_mcp_list_kind kind,
                                   const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                   void *user, uint64_t *call);
/* `arguments` NULL: none; else an object. */
IDEM_API idem_status idem_mcp_call_tool(idem_mcp_client *client, const char *name,
                                        const yyjson_mut_val *arguments,
                                        const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                        void *user, uint64_t *call);
IDEM_API idem_status idem_mcp_call_tool_json(idem_mcp_client *client, const char *name,
                                             const char *arguments, size_t len,
                                             const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                             void *user, uint64_t *call);
/* A fresh one is not asked for again (2026-07-28: ttlMs), unless it was told to have changed. */
IDEM_API idem_status idem_mcp_read(idem_mcp_client *client, const char *uri,
                                   const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                   void *user, uint64_t *call);
/* `arguments` NULL or an object of strings. */
IDEM_API idem_status idem_mcp_get_prompt(idem_mcp_client *client, const char *name,
                                         const yyjson_mut_val *arguments,
                                         const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                         void *user, uint64_t *call);
typedef struct idem_mcp_completion {
  const char *prompt; /* one of the two */
  const char *uri_template;
  const char *argument;
  const char *value;
  const yyjson_mut_val
      *context; /* other arguments: an object, or NULL; left out before 2025-06-18 */
} idem_mcp_completion;
IDEM_API idem_status idem_mcp_complete(idem_mcp_client *client, const idem_mcp_completion *what,
                                       const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                       void *user, uint64_t *call);
/* resources/subscribe and unsubscribe: before 2026-07-28 (else STATE). */
IDEM_API idem_status idem_mcp_subscribe(idem_mcp_client *client, const char *uri,
                                        const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                        void *user, uint64_t *call);
IDEM_API idem_status idem_mcp_unsubscribe(idem_mcp_client *client, const char *uri,
                                          const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                          void *user, uint64_t *call);
/* Which changes to hear of; the observers tell. It is a call that lasts until it is cancelled, the server ends it or the
 * connection goes. In 2026-07-28 it is subscriptions/listen, asked again after a pause where its stream breaks;
 * before, resources/subscribe for each URI (and unsubscribe when it is cancelled), lists being told of anyway. idle_ms does not count
 * for it. */
typedef struct idem_mcp_listening {
  bool tools, prompts, resources;
  const char *const *uris;  /* resources; ends with NULL; NULL: none */
  const char *const *tasks; /* task ids (2026-07-28); ends with NULL; NULL: none */
  /* It has begun, also again; `honoured` is what the server grants, NULL before 2026-07-28. */
  void (*on_begin)(idem_mcp_client *client, uint64_t call, yyjson_val *honoured, void *user);
} idem_mcp_listening;
IDEM_API idem_status idem_mcp_listen(idem_mcp_client *client, const idem_mcp_listening *what,
                                     const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                     void *user, uint64_t *call);
/* From which level on log lines are sent: logging/setLevel, in 2026-07-28 with every request from now on. */
IDEM_API idem_status idem_mcp_set_level(idem_mcp_client *client, idem_mcp_level level,
                                        const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                        void *user, uint64_t *call);
/* ping; in 2026-07-28, which has none, server/discover. */
IDEM_API idem_status idem_mcp_client_ping(idem_mcp_client *client, const idem_mcp_call_opts *opts,
                                          idem_mcp_result_fn fn, void *user, uint64_t *call);

/* Tasks, in the form the revision has (2025-11-25 and 2026-07-28). get: the task as it is. wait: polls at the server's
 * pace until it has ended, its questions answered, then the outcome as the call itself would have had it. */
IDEM_API idem_status idem_mcp_task_get(idem_mcp_client *client, const char *task,
                                       const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                       void *user, uint64_t *call);
IDEM_API idem_status idem_mcp_task_wait(idem_mcp_client *client, const char *task,
                                        const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                        void *user, uint64_t *call);
IDEM_API idem_status idem_mcp_task_cancel(idem_mcp_client *client, const char *task,
                                          const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                          void *user, uint64_t *call);
/* 2026-07-28 alone: {key: answer, ...}, as JSON text. */
IDEM_API idem_status idem_mcp_task_update(idem_mcp_client *client, const char *task,
                                          const char *answers, size_t len,
                                          const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                          void *user, uint64_t *call);
/* 2025-11-25 alone: waits on the server's side; and the tasks there are, in items. */
IDEM_API idem_status idem_mcp_task_result(idem_mcp_client *client, const char *task,
                                          const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                          void *user, uint64_t *call);
IDEM_API idem_status idem_mcp_task_list(idem_mcp_client *client, const idem_mcp_call_opts *opts,
                                        idem_mcp_result_fn fn, void *user, uint64_t *call);

/* Skills, an extension (io.modelcontextprotocol/skills; declare it with opts->extensions). The list holds what each skill is and the
 * digest and size of every file of it; nothing is read until you load it. load_skill reads one file of an entry of that
 * list, its SKILL.md or another of its resources: PROTO, and nothing in `skill_text`, unless size and digest are those of the entry and
 * a SKILL.md's front matter says what the entry's does. INVAL: the entry has no such file. */
IDEM_API idem_status idem_mcp_list_skills(idem_mcp_client *client, const idem_mcp_call_opts *opts,
                                          idem_mcp_result_fn fn, void *user, uint64_t *call);
IDEM_API idem_status idem_mcp_load_skill(idem_mcp_client *client, yyjson_val *entry,
                                         const char *uri, const idem_mcp_call_opts *opts,
                                         idem_mcp_result_fn fn, void *user, uint64_t *call);

/* Any method, `params` NULL or the text of an object; what the revision wants is added. Its questions and tasks are
 * not gone through unless it is tools/call, prompts/get or resources/read. */
IDEM_API idem_status idem_mcp_method(idem_mcp_client *client, const char *method,
                                     const char *params, size_t len, const idem_mcp_call_opts *opts,
                                     idem_mcp_result_fn fn, void *user, uint64_t *call);
IDEM_API idem_status idem_mcp_notify(idem_mcp_client *client, const char *method,
                                     const char *params, size_t len);

/* Ends a call with CANCELLED, its function inside, and tells the server as the revision has it: by a notification, by the
 * end of its HTTP request, and by tasks/cancel where it has become a task. NOTFOUND: there is no such call. */
IDEM_API idem_status idem_mcp_cancel(idem_mcp_client *client, uint64_t call);
/* A call that the server refuses until the user has been at an address (2025-11-25: -32042) asks on_url, and is asked again when the
 * server says that it is over; if it does not say so within ten minutes, TIMEOUT. This is for the user's own
 * "done": it is asked again now. STATE: it does not wait for that. NOTFOUND. */
IDEM_API idem_status idem_mcp_retry(idem_mcp_client *client, uint64_t call);
/* Calls under way. */
IDEM_API size_t idem_mcp_client_calls(const idem_mcp_client *client);

/* Roots: an array of {uri, name?} as JSON text; the server is told where it can be. Also before connecting. INVAL: not such
 * a text; NOMEM. */
IDEM_API idem_status idem_mcp_client_set_roots(idem_mcp_client *client, const char *roots,
                                               size_t len);

#ifdef __cplusplus
}
#endif
#endif
