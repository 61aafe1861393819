/* mcp_client.h - the asking role of MCP, on conns of src/rpc and on what both roles share (src/mcp).
 * The nouns: a client is one server seen from our side; a call is one question of the program's, through however
 * many messages it takes; a round is what a server wants to know before it goes on; a question is one
 * piece of that, with the program's handler; a link is what the client knows of its transport, by functions.
 * It knows neither the server's folder nor a transport. See docs/internals/mcp_client.md. */
#ifndef IDEM_MCP_CLIENT_PRIVATE_H
#define IDEM_MCP_CLIENT_PRIVATE_H

#include "../json/build.h"
#include "../mcp/mcp.h"
#include "../mcp/once_key.h"

#include <idem/mcp_client.h>
#include <idem/schema.h>

/* yyjson's getters take what they do not change without const. */
static inline yyjson_mut_val *idem__mcp_mutable(const yyjson_mut_val *val) {
  return (yyjson_mut_val *)(uintptr_t)val;
}

/* -------------------------------------------------------------------- calls */

typedef enum idem__mcp_call_kind {
  IDEM__MCP_PLAIN,
  IDEM__MCP_HELLO, /* server/discover and initialize: made before the client is ready */
  IDEM__MCP_LIST,
  IDEM__MCP_TOOL,
  IDEM__MCP_ROUNDS, /* resources/read, prompts/get: may need input */
  IDEM__MCP_LISTEN,
  IDEM__MCP_TASK_GET,
  IDEM__MCP_TASK_WAIT,
  IDEM__MCP_SKILL
} idem__mcp_call_kind;

/* What a call waits for. */
typedef enum idem__mcp_stage {
  IDEM__MCP_ASKED,   /* an answer of the server's */
  IDEM__MCP_DUE,     /* its end, which is known: `early` */
  IDEM__MCP_LOOKING, /* the list of tools, to know what to mirror */
  IDEM__MCP_WAITING, /* the answers to questions */
  IDEM__MCP_PAUSING  /* a moment: `resume` runs at resume_at */
} idem__mcp_stage;

/* Theirs are the insides: round.c, question.c. */
struct idem__mcp_round;
struct idem_mcp_question;

typedef struct idem__mcp_call idem__mcp_call;
typedef struct idem__mcp_pages idem__mcp_pages;
typedef struct idem__mcp_round idem__mcp_round;
typedef struct idem__mcp_task idem__mcp_task;
typedef struct idem__mcp_addresses idem__mcp_addresses;
typedef struct idem__mcp_once idem__mcp_once;

struct idem__mcp_call {
  idem_mcp_client *client;
  idem_list link;    /* in the client's calls */
  idem_list waiting; /* in its `looking`, while LOOKING */
  idem__timer timer;
  uint64_t handle;             /* also the progress token; its low bits are the slot */
  uint64_t asked;              /* the id of the message under way; 0: none */
  const char *method;          /* of the message under way: a constant, or in `text` */
  const idem__mcp_method *row; /* NULL: none of the table */
  idem_mcp_result_fn fn;
  void *user;
  void (*on_progress)(idem_mcp_client *client, const idem_mcp_progress *progress, void *user);
  uint64_t idle_ms, idle_at, deadline_at; /* ms; UINT64_MAX: no limit */
  void (*resume)(idem__mcp_call *call);   /* PAUSING */
  uint64_t resume_at;
  idem_status early;       /* DUE, and why we end it ourselves */
  const char *early_text;  /* a constant */
  int http_status;         /* of the last answer; 0: none */
  uint64_t retry_after_ms; /* which it asks for; 0: none */
  idem__mcp_call_kind kind;
  idem__mcp_stage stage;
  bool was_sent; /* some message of it went out, and may have had effects */
  bool answered; /* and the server has said its last word */
  bool detach, fresh, no_key;
  bool from_cache; /* it ends with what was read before */
  bool refused;    /* it waits for the program's word, not the server's: no silence is too long */
  bool tried_version, tried_headers, tried_session; /* each fault of a message is mended once */
  unsigned rounds;
  idem__mcp_pages *pages; /* LIST */
  idem__mcp_round *round;
  idem__mcp_task *task;
  idem__mcp_addresses *addresses; /* the user is sent to them first: see address.c */
  idem__mcp_once *once;           /* it carries a key: see once.c; NULL: none */
  void *listening;                /* LISTEN: see listen.c */
  void *skill;                    /* SKILL: see skill.c */
  idem_mcp_list_kind list_kind;
  size_t subject_at, subject_len; /* in text: what Mcp-Name says */
  size_t args_at, args_len;       /* in text: the arguments of a tool or prompt; 0: none */
  size_t params_len;              /* text: members of params without _meta, */
  size_t meta_len;                /* then members of _meta, then names */
  char text[];
};

/* What a call is made of. Texts are lent. */
typedef struct idem__mcp_ask {
  idem__mcp_call_kind kind;
  const idem__mcp_method *row;
  const char *method; /* where there is no row; copied */
  const char *params; /* members, good JSON, without braces and without _meta */
  size_t params_len;
  size_t subject_at, subject_len; /* within params: the subject as a JSON string, quotes included */
  size_t args_at, args_len;       /* within params */
  const char *meta;               /* members of _meta, as params */
  size_t meta_len;
  const char *key; /* the program's own; NULL: none */
  size_t key_len;
  const char *key_store;          /* where it was called before; NULL: nowhere */
  const idem_mcp_call_opts *opts; /* may be NULL */
  idem_mcp_result_fn fn;
  void *user;
} idem__mcp_ask;

/* ------------------------------------------------------------------- client */

/* The transport as the client knows it; NULL functions: there is no such thing. */
typedef struct idem__mcp_link {
  bool http; /* messages are mirrored in headers; silence says nothing about eras */
  /* The era is known: from now on requests are those of this revision. */
  void (*settled)(void *user, const idem__revision *revision);
  /* initialize was refused: true if another transport is tried, and `initialize` is to be asked again. */
  bool (*fall_back)(void *user);
  /* The peer has gone at the first word: true if it is started anew; the client hears of a conn or of the failure. */
  bool (*restart)(void *user);
  /* The client is ready or not: idem_mcp_connect's side of on_ready. */
  void (*ready)(void *user, idem_status status);
  /* The program wants to end it. */
  void (*close)(void *user);
  /* A session was lost and is there again, or cannot be had (false). */
  void (*session)(void *user, bool there);
  void (*reason)(void *user, idem_mcp_trouble *trouble);
} idem__mcp_link;

typedef enum idem__mcp_state {
  IDEM__MCP_NEW,
  IDEM__MCP_DISCOVERING,
  IDEM__MCP_INITIALIZING,
  IDEM__MCP_READY,
  IDEM__MCP_OVER
} idem__mcp_state;

/* A tool that was listed. */
typedef struct idem__mcp_tool {
  char *name;
  size_t name_len;
  idem__header_rules rules;
  char *fault;         /* why it must not be called over HTTP; NULL: it may */
  char *output_schema; /* as text; NULL: none, or given up */
  size_t output_len;
  idem_schema *schema; /* compiled when first needed */
  bool read_only;      /* it says so */
  struct idem__mcp_tool *next;
} idem__mcp_tool;

/* What is known of a list. */
typedef struct idem__mcp_cache {
  char *text; /* the array; NULL: nothing */
  size_t len;
  uint64_t fresh_until; /* ms; UINT64_MAX: for good */
  bool is_private;
} idem__mcp_cache;

#define IDEM__MCP_LISTS 4
#define IDEM__MCP_STRAY 256
#define IDEM__MCP_TROUBLE 320
#define IDEM__MCP_TROUBLE_DATA 4096u

struct idem_mcp_client {
  idem_alloc alloc;
  idem_mcp_client_opts opts;
  char *texts; /* the options' strings */
  idem_router *router;
  idem_policy policy;
  idem_conn *conn;
  const idem__mcp_link *the_link; /* never NULL */
  void *link_user;
  idem__mcp_state state;
  const idem__revision *revision;          /* NULL: not settled */
  const idem__revision *offered;           /* in the message of the handshake under way */
  idem__revision const *legacy;            /* the newest one we may offer; NULL: none */
  bool tried_modern, tried_version, again; /* `again`: a lost session is made anew */
  bool told_ready, closing, lost_told;
  bool was_silent; /* server/discover met silence: the server may only have been slow to start */
  bool starting;   /* idem_mcp_client_open is on the stack, */
  idem_status start_failure; /* and will return this */
  bool restarting;           /* the first conn went at the first word, another one comes */
  idem_mcp_ready_fn on_ready;
  void *ready_user;
  yyjson_doc *hello; /* {info, capabilities, instructions} */
  idem_buf identity; /* members: clientInfo and clientCapabilities of _meta (2026-07-28) */
  idem_buf roots;    /* a JSON array */
  int level;         /* of log lines wanted; -1: not said */
  idem_buf scratch;  /* of the message being written */
  idem_list calls;
  size_t call_count;
  idem__mcp_call **slots;
  uint32_t *free_slots; /* a stack */
  size_t slot_cap, free_count;
  uint64_t serial;
  idem__heap timers;
  idem_list looking; /* calls that wait for the list of tools */
  bool looking_now;
  idem_list questions;
  size_t question_count;
  size_t
      asked_by_server; /* questions that came as requests: which call they hold up is not known */
  idem_map tools;
  idem__mcp_tool *first_tool;
  bool tools_known;
  idem__mcp_cache caches[IDEM__MCP_LISTS];
  idem_list reads; /* resources that are fresh: see read.c */
  size_t read_count, read_bytes;
  idem_buf learnt; /* an array of tools that the program brought, not yet read */
  uint64_t learnt_ms;
  idem_schema_ctx *schema_ctx;
  idem_log_bucket bucket;
  const char *hearing; /* the message being taken, for who reports strays */
  size_t hearing_len;
  idem_mcp_trouble trouble;
  char trouble_text[IDEM__MCP_TROUBLE];
  idem_buf trouble_data;
  char stray[IDEM__MCP_STRAY];
  size_t stray_len;
  bool heard_unknown; /* an answer whose id is that of no call; the one that waits may miss it */
  size_t given_up;    /* messages that were cancelled: their answers may come yet */
  size_t lost_not_sent, lost_unknown;
};

static inline bool idem__mcp_modern(const idem_mcp_client *client) {
  return client->revision && idem__revision_has(client->revision, IDEM__R_MODERN);
}
/* Whether requests are mirrored in headers. */
static inline bool idem__mcp_mirrors(const idem_mcp_client *client) {
  return client->the_link->http && idem__mcp_modern(client);
}

/* Whether calls may be made. A session that is made anew holds them up, nothing more. */
static inline bool idem__mcp_usable(const idem_mcp_client *client) {
  return client->told_ready && client->conn && !client->closing && client->state != IDEM__MCP_OVER;
}

/* client.c: for transports. A conn with the client's router and policy becomes the client's, and the client
 * asks. */
void idem__mcp_client_bind(idem_mcp_client *client, idem_conn *conn);
/* It is the client's no longer. */
void idem__mcp_client_unbind(idem_mcp_client *client);
idem_mcp_client *idem__mcp_client_of(const idem_conn *conn); /* NULL: it is no client's */
void idem__mcp_client_set_link(idem_mcp_client *client, const idem__mcp_link *link, void *user);
/* Connecting has failed: on_ready is told. */
void idem__mcp_client_fail(idem_mcp_client *client, idem_status status, const char *text);
/* The conn has gone, or nothing will come of it. */
void idem__mcp_client_lost(idem_mcp_client *client);
void idem__mcp_client_trouble(idem_mcp_client *client, idem_status status, const char *text,
                              size_t len);
void idem__mcp_client_problem(idem_mcp_client *client, const char *what, const char *detail);

/* hello.c: what is said first. */
void idem__mcp_hello(idem_mcp_client *client);
/* The session is lost: makes another one, once at a time. */
void idem__mcp_hello_again(idem_mcp_client *client);
/* The way to a handshake is closed. */
void idem__mcp_hello_failed(idem_mcp_client *client, const char *text, int http_status);
/* Declares, as 2026-07-28 has it in _meta. */
idem_status idem__mcp_identity(idem_mcp_client *client);

/* call.c: the life of a call. */
idem_status idem__mcp_call_start(idem_mcp_client *client, const idem__mcp_ask *ask,
                                 idem__mcp_call **out);
/* The same, but not yet sent. */
idem_status idem__mcp_call_make(idem_mcp_client *client, const idem__mcp_ask *ask,
                                idem__mcp_call **out);
/* Writes and sends its message, again with a new id. */
idem_status idem__mcp_call_send(idem__mcp_call *call);
/* Sends another message in its place: method and members of params. */
idem_status idem__mcp_call_send_other(idem__mcp_call *call, const idem__mcp_method *row,
                                      const char *params, size_t len);
/* Ends it: the function runs, the call is gone. */
void idem__mcp_call_end(idem__mcp_call *call, idem_mcp_result *result);
void idem__mcp_call_fail(idem__mcp_call *call, idem_status status, const char *text);
/* With an error of the server's; with the result of a tool, checked. */
void idem__mcp_call_end_remote(idem__mcp_call *call, const idem_response *response);
void idem__mcp_call_end_tool(idem__mcp_call *call, yyjson_val *result);
/* Ends it soon, not inside. */
void idem__mcp_call_end_soon(idem__mcp_call *call, idem_status status, const char *text);
void idem__mcp_call_pause(idem__mcp_call *call, uint64_t ms, void (*resume)(idem__mcp_call *call));
/* A life sign: the idle time begins anew. */
void idem__mcp_call_touch(idem__mcp_call *call);
void idem__mcp_call_arm(idem__mcp_call *call);
/* Without a result or with one that is no good: frees it, its function does not run. */
void idem__mcp_call_drop(idem__mcp_call *call);
idem__mcp_call *idem__mcp_call_find(const idem_mcp_client *client, uint64_t handle);
void idem__mcp_call_answered(idem__mcp_call *call, const idem_response *response);
void idem__mcp_calls_expire(idem_mcp_client *client, uint64_t now_ms);
void idem__mcp_calls_close(idem_mcp_client *client, idem_status status, const char *text);
void idem__mcp_call_cancel(idem__mcp_call *call, idem_status status, const char *text);
/* For transports: the call whose message has this id; NULL: none of ours. */
idem__mcp_call *idem__mcp_call_of(const idem_mcp_client *client, uint64_t id);
/* The headers that mirror its message: lines, each ended by a NUL. */
idem_status idem__mcp_call_headers(const idem__mcp_call *call, idem_buf *out);

/* list.c, tool.c */
bool idem__mcp_page_taken(idem__mcp_call *call, const idem_response *response);
void idem__mcp_pages_free(idem_mcp_client *client, idem__mcp_pages *pages);
void idem__mcp_list_changed(idem_mcp_client *client, idem_mcp_list_kind kind);
void idem__mcp_learnt(idem_mcp_client *client);
void idem__mcp_caches_drop(idem_mcp_client *client, bool only_private);
idem_status idem__mcp_tools_learn(idem_mcp_client *client, yyjson_val *tools);
void idem__mcp_tools_forget(idem_mcp_client *client);
const idem__mcp_tool *idem__mcp_tool_find(const idem_mcp_client *client, const char *name,
                                          size_t len);
/* By its name as a JSON string. */
const idem__mcp_tool *idem__mcp_tool_named(const idem_mcp_client *client, const char *json,
                                           size_t len);
/* NULL: it fits, or nothing is known; else a sentence, lent by the client. */
const char *idem__mcp_tool_check(idem_mcp_client *client, const char *name, size_t len,
                                 yyjson_val *result);
/* Has a call of a tool wait until the tools are known, where that is needed. True: it waits. */
bool idem__mcp_tool_look_up(idem__mcp_call *call);
/* True: the answer means that the tool has changed, and the call goes on. */
bool idem__mcp_tool_mend(idem__mcp_call *call, const idem_response *response);

/* round.c, question.c */
/* Takes what the server wants to know; `then` runs when all is answered. False: the call has ended. */
bool idem__mcp_round_begin(idem__mcp_call *call, yyjson_val *requests, yyjson_val *state,
                           void (*then)(idem__mcp_call *call));
bool idem__mcp_round_asks(const idem__mcp_round *round);
/* Writes the answers, as an object. */
idem_status idem__mcp_round_put(const idem__mcp_round *round, idem_buf *out);
bool idem__mcp_round_state(const idem__mcp_round *round, const char **text, size_t *len);
/* Whether every answer is an acceptance, of URL questions. */
bool idem__mcp_round_accepted(const idem__mcp_round *round);
void idem__mcp_round_free(idem__mcp_call *call);
void idem__mcp_round_answer(idem__mcp_call *call, size_t index, const char *json, size_t len);
void idem__mcp_questions_close(idem_mcp_client *client);
/* A question of a round, for a handler. STATE: there is none for it, or it is none; NOMEM. */
idem_status idem__mcp_question_ask(idem__mcp_call *call, size_t index, yyjson_val *method,
                                   yyjson_val *params);
/* A question of this call was refused in a way that cannot be answered. */
void idem__mcp_round_refuse(idem__mcp_call *call, const char *text);
/* The same for a request of the server's, which is kept. */
void idem__mcp_question_request(idem_mcp_client *client, idem_request *request, yyjson_val *params,
                                bool sampling);
/* The call is over: its questions are nobody's. */
void idem__mcp_questions_leave(const idem__mcp_call *call);

/* task.c: a call that became a task. */
bool idem__mcp_task_begin(idem__mcp_call *call, yyjson_val *result);
bool idem__mcp_task_answered(idem__mcp_call *call, const idem_response *response);
void idem__mcp_task_free(idem__mcp_call *call);
void idem__mcp_task_tell_cancel(idem__mcp_call *call);
yyjson_val *idem__mcp_task_of(yyjson_val *result);
/* Waits for a task that somebody started before. */
idem_status idem__mcp_task_wait_for(idem__mcp_call *call, const char *task);
idem_status idem__mcp_task_header(const idem__mcp_call *call, idem_buf *out);
/* What was asked of it last, once more. */
idem_status idem__mcp_task_again(idem__mcp_call *call);

/* listen.c */
bool idem__mcp_listen_answered(idem__mcp_call *call, const idem_response *response);
void idem__mcp_listen_free(idem__mcp_call *call);
void idem__mcp_listen_begun(idem_mcp_client *client, yyjson_val *params);
void idem__mcp_listen_over(idem__mcp_call *call);
/* It is cancelled: what was subscribed to is left. */
void idem__mcp_listen_leave(idem__mcp_call *call);

/* address.c: True: the error means that the user is sent somewhere first, and the call goes on. */
bool idem__mcp_addresses_begin(idem__mcp_call *call, const idem_response *response);
void idem__mcp_addresses_free(idem__mcp_call *call);
void idem__mcp_address_over(idem_mcp_client *client, const char *id, size_t len);

/* once.c: calls with a key. The program's own key. INVAL: none; NOMEM. */
idem_status idem__mcp_once_own(idem__mcp_call *call, const idem__mcp_ask *ask);
/* Before its message is written: whether it gets a key. NOMEM. */
idem_status idem__mcp_once_prepare(idem__mcp_call *call);
/* Members of _meta, each behind a comma. */
idem_status idem__mcp_once_put(const idem__mcp_call *call, idem_buf *out);
/* True: it is asked again, after a pause. */
bool idem__mcp_once_again(idem__mcp_call *call, const idem_response *response);
/* True: it goes on, without a key. */
bool idem__mcp_once_mend(idem__mcp_call *call, const idem_response *response);
/* What is known after an error of the server's. */
idem_mcp_fate idem__mcp_once_fate(const idem__mcp_call *call, const idem_response *response);
void idem__mcp_once_tell(const idem__mcp_call *call, idem_mcp_result *result);
/* Whether this is a repetition after silence, which goes on; said once. */
bool idem__mcp_once_silent(idem__mcp_call *call);
/* It is given up: the server is told by its key, where nothing else tells it. */
void idem__mcp_once_cancel(idem__mcp_call *call);

/* read.c */
void idem__mcp_read_keep(const idem__mcp_call *call, yyjson_val *result);
/* True: it is fresh, and the call will end with it. */
bool idem__mcp_read_is_kept(idem__mcp_call *call);
void idem__mcp_read_end(idem__mcp_call *call);
void idem__mcp_read_updated(idem_mcp_client *client, const char *uri, size_t len);
void idem__mcp_reads_drop(idem_mcp_client *client, bool only_private);

/* skill.c */
void idem__mcp_skill_end(idem__mcp_call *call, yyjson_val *result);
void idem__mcp_skill_free(idem__mcp_call *call);

/* notice.c: what the server says unasked. */
idem_status idem__mcp_notices_register(idem_mcp_client *client);
void idem__mcp_heard(idem_conn *conn, const idem__message *message);

#endif
