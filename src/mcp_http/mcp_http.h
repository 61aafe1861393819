/* mcp_http.h - MCP over HTTP: what its files share. One table for a server, shared by its threads;
 * one endpoint for each thread. See docs/internals/mcp_http.md. */
#ifndef IDEM_HTTP_MCP_H
#define IDEM_HTTP_MCP_H

#include "../mcp_server/mcp_server.h"
#include "http/rpc_endpoint.h"

typedef struct idem__session_table idem__session_table; /* sessions, shared by threads */
typedef struct idem__mcp_endpoint idem__mcp_endpoint;   /* one thread's side */

/* Zero means the default. */
typedef struct idem__session_table_opts {
  idem_server *server;
  size_t max_sessions;      /* 10,000 */
  size_t max_sessions_each; /* a principal's share of them; half, rounded up */
  uint64_t session_idle_ms; /* 30 min */
  size_t log_bytes;         /* kept for resumption, a session; 256 KiB */
  size_t
      max_images; /* of sessions whose records are elsewhere: then those that nobody uses go; 8,192 */
  bool stateless_legacy; /* serve older revisions without a session, too */
  idem_metrics *metrics; /* sessions are counted here, with the table's lock held; NULL: nowhere */
} idem__session_table_opts;
idem_status idem__session_table_new(const idem__session_table_opts *opts,
                                    idem__session_table **out);
void idem__session_table_free(idem__session_table *table);
size_t idem__session_table_sessions(idem__session_table *table);

typedef struct idem__mcp_endpoint_opts {
  idem__session_table *table;
  idem__mcp_worker *worker;
  idem__http_rpc_opts rpc;  /* router, rules, serving are the endpoint's */
  const char *message_path; /* of 2024-11-05's transport; borrowed; NULL: "/message" */
} idem__mcp_endpoint_opts;
idem_status idem__mcp_endpoint_new(const idem__mcp_endpoint_opts *opts, idem__mcp_endpoint **out);
void idem__mcp_endpoint_free(idem__mcp_endpoint *endpoint);
/* Serves it at a path; `told`: whoever misses it is told where it is. */
idem_status idem__mcp_endpoint_add(idem__mcp_endpoint *endpoint, idem_http_server *http,
                                   const char *path, bool websocket_alone, bool told);
/* And 2024-11-05's transport: streams at `path`, messages at the endpoint's message_path. */
idem_status idem__mcp_endpoint_add_sse(idem__mcp_endpoint *endpoint, idem_http_server *http,
                                       const char *path);
/* The route functions; user: the endpoint. */
void idem__mcp_serve(idem_http_exchange *exchange, const idem_http_request *request, void *user);
idem__websocket *idem__mcp_upgrade(idem_http_conn *conn, const idem_http_request *request,
                                   void *user);
#define IDEM__SESSION_ID 32
/* 2024-11-05's transport (mcp_sse.c): GET the stream, POST a message. */
void idem__mcp_serve_sse(idem_http_exchange *exchange, const idem_http_request *request,
                         void *user);
void idem__mcp_serve_message(idem_http_exchange *exchange, const idem_http_request *request,
                             void *user);
/* The id of a new stream of this principal's. */
void idem__sse_make_id(const idem__session_table *table, const char *principal,
                       char id[IDEM__SESSION_ID + 1]);
/* A message for one of its streams, posted here or to another process. Gives the status of the answer: 202, 404 where there is no
 * such stream here, 503: no memory, or too much that was posted there waits. */
typedef struct idem__sse_message {
  const char *session; /* IDEM__SESSION_ID bytes */
  const char *principal;
  idem__ip client; /* who posted it */
  uint64_t now_ms;
  idem__grant *grant; /* counted here */
  idem__view key;     /* of its header, as it stands there; absent: none */
  idem__view body;
  bool refusal; /* it is an error of ours, to be said there */
} idem__sse_message;
uint16_t idem__sse_post(idem__mcp_endpoint *endpoint, const idem__sse_message *sent);
/* One that another process took, and its sender has been told so: what becomes of it only the stream can say. 202: that it is refused
 * was said there, too; 404; 503: nothing happened. */
uint16_t idem__sse_post_taken(idem__mcp_endpoint *endpoint, const idem__sse_message *sent);
/* carry.c: as a letter's text. */
idem_status idem__carry_sse_write(idem_buf *out, const idem__sse_message *message);
/* Frees the streams that have ended, or all. */
void idem__sse_sweep(idem__mcp_endpoint *endpoint, bool all);
/* Where its rules have the headers that every request is asked for (idem__http_given_value). */
enum {
  IDEM__MCP_H_METHOD,
  IDEM__MCP_H_NAME,
  IDEM__MCP_H_SESSION,
  IDEM__MCP_H_VERSION,
  IDEM__MCP_H_KEY
};
extern const idem__http_rules idem__mcp_rules;
/* Its Idempotency-Key, absent where there is none; of several none is a key. */
idem__view idem__mcp_key(const idem_http_request *request);
/* The value of a header that its rules ask for; of several of one name an empty one. */
idem__view idem__mcp_given(const idem_http_request *request, size_t place);

/* --------------------------------------------------------------- sessions */

/* A session in use does not expire, unless whoever used it died without a word. */
#define IDEM__SESSION_BUSY_MS ((uint64_t)24 * 60 * 60 * 1000)

/* An id that a POST has in flight, as the others of its session see it. */
typedef struct idem__claim {
  struct idem__claim *next; /* of the same POST */
  struct idem__session_post *post;
  size_t len;
  char *key;
} idem__claim;

/* A POST of a session: its handler may ask the client, whose answers come with another POST. */
typedef struct idem__session_post {
  idem__mcp_endpoint *endpoint;
  idem_conn *conn;
  uint64_t first_call; /* of the ids reserved for it */
  /* This and below: guarded by the lock of what is in flight. */
  uint64_t stream; /* that its events have; 0: none yet */
  idem__claim *claims;
  idem__claim first_claim;
  char first_key[40];
} idem__session_post;
#define IDEM__CALLS_RESERVED 4096u

/* claims.c: what a session has in flight. The lock is for a few instructions; whoever holds it may take
 * the table's, never the other way round. */
typedef struct idem__in_flight {
  idem__lock lock;
  idem_map claims; /* by the key of the id */
  idem_map posts;  /* by first_call */
  uint64_t next_call;
} idem__in_flight;

/* The image of a legacy session: its record in the store, decoded, and what belongs to this process
 * alone (who is asking, open streams). Everything but `legacy`'s constants, atomics and what is in flight
 * is guarded by the table's lock. */
typedef struct idem__http_session {
  idem__mcp_session legacy;
  idem_list link; /* in the table */
  idem_list idle; /* among those that nobody holds, in the table's idle or lingering */
  struct idem__session_holder *holder; /* whose it is, while it is in the table */
  idem_list own_idle;                  /* among those of its holder's that nobody holds */
  uint64_t left_ms;                    /* lingering: since when */
  idem__session_table *table;
  unsigned refs;              /* the table's and one for each user */
  _Atomic unsigned under_way; /* POSTs of it under way */
  unsigned detached; /* of these, those whose peer has gone: they do not keep it from ending */
  _Atomic bool ended;
  char id[IDEM__SESSION_ID + 1];
  char *principal;       /* behind it in its memory */
  bool claimed;          /* nobody checked its principal */
  uint64_t version;      /* of the record it shows */
  idem_list changes;     /* of it: the first is being made, and whoever it takes along */
  unsigned changing;     /* as many */
  unsigned busy;         /* changes and events of this process on their way to the store */
  _Atomic unsigned news; /* counts what a store that answers later told of its log */
  _Atomic bool behind;   /* the record is newer than the image, which open streams go by */
  bool unsure;           /* somebody else changed the record, which is being read anew */
  bool missed;           /* there was news meanwhile that it may want */
  bool lingers;          /* nobody holds it, and its record still has the time of one in use */
  bool had_stream;       /* a GET stream was open once: what it misses is kept */
  unsigned get_streams;  /* open now */
  unsigned resumed;      /* streams of POSTs that are taken up again here, open now */
  /* The GET stream that is told; NULL: the next that asks. */
  const struct idem__get_stream *primary;
  uint32_t told;     /* the newest event a primary has sent */
  uint32_t listened; /* the node where it listened before; 0: one that is dead, or of several */
  idem_list doubt;   /* in the table's doubts; see remind.c */
  unsigned doubted;  /* renewals of our record until then */
  idem__in_flight in_flight;
} idem__http_session;

void idem__session_table_lock(idem__session_table *table);
void idem__session_table_unlock(idem__session_table *table);
bool idem__session_table_stateless(const idem__session_table *table);
/* Endpoints come and go; one of them acts for all where once is enough. */
void idem__session_table_join(idem__session_table *table, idem__mcp_endpoint *endpoint);
void idem__session_table_leave(idem__session_table *table, idem__mcp_endpoint *endpoint);
/* What is asked of the store is heard of on the queue's thread, now or later. Who asked keeps the struct until
 * then, or forgets it (idem__store_forget of its `pending`, where nothing else is said).
 *
 * Finding one: counted; NOTFOUND: unknown, ended, or somebody else's; else why nobody knows. */
typedef struct idem__session_finding {
  idem__session_table *table;
  idem__store_queue *queue;
  idem__store_pending *pending;
  const char *principal; /* borrowed; NULL: anybody's */
  void (*found)(idem__http_session *session, idem_status status, void *user);
  void *user;
  char id[IDEM__SESSION_ID];
} idem__session_finding;
void idem__http_session_find(idem__session_finding *finding, idem__view id, uint64_t now_ms);
/* ... whose `id` is set, as the store has it now. */
void idem__http_session_load(idem__session_finding *finding);

/* Opening one. `done` gets it counted. LIMIT: the table is full of sessions in use. `handle` points to it while
 * it lasts; who abandons it is not called, and a session that comes of it ends. */
typedef struct idem__session_first {
  idem__session_table *table;
  idem__store_queue *queue;
  const char *principal;
  bool claimed; /* nobody has checked who it is */
  uint64_t now_ms;
  const idem__revision *revision;
  yyjson_val *params;
} idem__session_first;
typedef struct idem__session_opening idem__session_opening;
typedef void (*idem__session_opened)(idem__http_session *session, idem_status status, void *user);
void idem__http_session_open(const idem__session_first *first, idem__session_opened done,
                             void *user, idem__session_opening **handle);
void idem__session_opening_abandon(idem__session_opening *opening); /* takes NULL */

/* Makes a change, here and in the store. `done` (may be NULL) is called in any case: it must not need what may
 * go before. */
typedef void (*idem__session_done)(idem_status status, void *user);
void idem__http_session_change(idem__http_session *session, idem__store_queue *queue,
                               const idem__session_change *change, idem__session_done done,
                               void *user);

/* Ending one, and knowing that it has. */
typedef struct idem__session_removing {
  idem__http_session *session; /* counted by the caller */
  idem__store_pending *pending;
  idem__session_done removed;
  void *user;
} idem__session_removing;
void idem__http_session_remove(idem__store_queue *queue, idem__session_removing *removing);

void idem__http_session_ref(idem__http_session *session);
void idem__http_session_unref(idem__http_session *session);
/* One of its users has lost its peer, or no longer has. */
void idem__http_session_detached(idem__http_session *session, bool detached);
/* Lets sessions whose time is over end, whoever comes or does not. */
void idem__session_table_tend(idem__session_table *table, uint64_t now_ms);
/* A session that nobody uses any more is given the time of an idle one when it has not been used for a moment: in a store elsewhere
 * each request would be two changes of its record, else none. */
uint64_t idem__session_table_deadline(const idem__session_table *table);
void idem__session_table_settle(idem__session_table *table, uint64_t now_ms);
/* It is still in use. */
void idem__http_session_alive(idem__http_session *session, uint64_t now_ms);
/* No more requests; its streams end. */
void idem__http_session_end(idem__http_session *session);
void idem__in_flight_init(idem__http_session *session);
void idem__in_flight_deinit(idem__http_session *session);
/* Nobody holds the session: what it needs while something is in flight is given back until then. */
void idem__in_flight_rest(idem__http_session *session);
void idem__in_flight_lock(idem__http_session *session);
void idem__in_flight_unlock(idem__http_session *session);
/* Reserves ids for its questions; NOMEM. Leaving drops its claims, too. Both take the lock. */
idem_status idem__post_join(idem__http_session *session, idem__session_post *post);
void idem__post_leave(idem__http_session *session, idem__session_post *post);
/* With the lock held; who was found stays as long as it is. NULL: nobody. */
idem__session_post *idem__post_of_call(const idem__http_session *session, uint64_t id);
idem__session_post *idem__claim_holder(const idem__http_session *session, const char *key,
                                       size_t len);
void idem__claim_add(idem__http_session *session, idem__session_post *post, const char *key,
                     size_t len);
/* Without it: a POST of this process still answers on that stream; its events have this stream from now on; the ids that it is
 * to answer, as they were spelled, as a JSON array; on its own thread. */
bool idem__post_streams(idem__http_session *session, uint64_t stream);
void idem__post_set_stream(idem__http_session *session, idem__session_post *post, uint64_t stream);
idem_status idem__post_write_ids(idem__http_session *session, const idem__session_post *post,
                                 idem_buf *out);

/* session_log.c: the events of a session. Keeps one for its GET stream. */
void idem__http_session_keep(idem__http_session *session, const char *text, size_t len);
/* The number of a stream says who answers on it, as that of a question does: which node (0: the only one there is), and which of its
 * session tables. 0 is the GET stream. */
#define IDEM__STREAM_NODE_SHIFT 32
#define IDEM__STREAM_TABLE_SHIFT 56
#define IDEM__STREAM_NODE(stream) ((uint32_t)((stream) >> IDEM__STREAM_NODE_SHIFT) & 0xffffffu)
#define IDEM__STREAM_TABLE(stream) ((unsigned)((stream) >> IDEM__STREAM_TABLE_SHIFT))
/* Before each event's text in the log: its stream, and whether it is that stream's last. Where a stream begins an entry says which ids
 * are answered on it. */
typedef struct idem__event_head {
  uint64_t stream;
  uint32_t last;
  uint32_t unused;
} idem__event_head;
#define IDEM__STREAM_BEGINS UINT64_MAX /* in place of its number, which is the entry's */
#define IDEM__STREAM_LOST 2u           /* as `last`: nobody knows what was to be answered on it */
/* False: not one of ours. */
bool idem__event_read(const idem__store_item *item, idem__event_head *head);
/* Keeps one for a stream, or numbers a stream; `added` gets the number, 0: none. */
typedef struct idem__session_event {
  idem__http_session *session;
  idem__store_queue *queue;
  idem__store_pending *pending;
  void (*added)(uint32_t number, void *user);
  void *user;
  const char *text; /* lent until it is added */
  size_t len;
  uint64_t stream;
  uint32_t after; /* the last that its stream was given, 0 for none */
  uint32_t found; /* the number that it has, where nobody heard of it */
  bool last;
  unsigned tries;
} idem__session_event;
void idem__http_session_add(idem__session_event *event, uint64_t stream, const char *text,
                            size_t len, bool last);
/* `ids`: what is answered on it, lent for the call. */
void idem__http_session_next_stream(idem__session_event *event, const char *ids, size_t len);
uint64_t idem__http_session_stream(const idem__http_session *session, uint32_t number);
/* It ends without an answer, and nobody waits for that; `lost`: who comes for it is told that there is no such stream any more. */
void idem__http_session_end_stream(idem__http_session *session, uint64_t stream, bool lost);
void idem__session_event_forget(idem__session_event *event);
idem_status idem__session_event_write(idem_buf *out, uint64_t stream, uint32_t number,
                                      const char *text, size_t len);
/* Writes the events of a stream after a number; `after` moves on. */
typedef struct idem__session_reading {
  idem__http_session *session;
  idem__store_queue *queue;
  idem__store_pending *pending;
  uint64_t stream;
  uint32_t after;
  bool newest_alone; /* only the number of the newest event is wanted */
  bool last;         /* the stream's last event was there */
  uint32_t newest;
  idem_buf events;                                         /* the caller's */
  bool (*shows)(const char *text, size_t len, void *user); /* this message? NULL: all */
  void (*read)(idem_status status, void *user);
  void *user;
} idem__session_reading;
void idem__http_session_read(idem__session_reading *reading);
/* With the lock held: of the nodes that share the store this one tells it what it did not ask for. */
bool idem__http_session_is_told_here(const idem__http_session *session);
/* ... and it wants to hear this. One whose record is being read anew may want it then, and is told afterwards. */
bool idem__http_session_takes(idem__http_session *session, const idem__mcp_news *news);
/* Sessions without an open GET stream that had one keep a notification for later. */
void idem__session_table_keep_notification(idem__mcp_endpoint *endpoint, const idem__mcp_news *news,
                                           const char *text, size_t len);

/* The maximum of a session's record: what initialize said, and what the client subscribes to. */
#define IDEM__RECORD_BYTES ((size_t)64 << 20)
/* session.c, for its sisters */
#define IDEM__TABLE_PLACES 64u
struct idem__session_table {
  idem_alloc alloc;
  idem__session_table_opts opts;
  idem__store *store;
  unsigned place; /* among the tables of its server; IDEM__TABLE_PLACES: one of too many */
  idem__store_watcher *watcher, *carried, *letters; /* of sessions; of what other processes send */
  idem__store_watcher *nodes;                       /* of those that leave */
  _Atomic uint64_t now_ms;                          /* the newest time anybody told */
  _Atomic uint64_t
      no_room_ms; /* when the log was told that there is none for one more session; 0: never */
  idem__lock lock;
  idem_map by_id;
  idem_list sessions;         /* all */
  idem_list idle;             /* those that nobody uses, least recently used first */
  idem_list lingering;        /* ... later than these, with records that have yet to be told so */
  _Atomic uint64_t settle_ms; /* when the first of these is; UINT64_MAX: there is none */
  idem_map holders;           /* by principal: see session_share.c */
  idem__heap ranks;           /* of these, who has most sessions first */
  idem_list doubts;           /* sessions that came from nodes which may have died before */
  size_t doubting;            /* as many */
  idem_list endpoints;
  _Atomic unsigned
      orphans; /* how often a session ended that had POSTs under way: endpoints look for theirs */
  idem_map sse_lines;     /* streams of 2024-11-05 by id: see mcp_sse.c */
  idem_map letters_taken; /* by name, until they are certainly removed: see letter_take.c */
  idem_list letters_back; /* of these, those of which the store did not say enough */
};
/* endpoint.c: has `fn` called on the thread of one of the table's endpoints, soon; NULL: that one has gone meanwhile.
 * From any thread, without the lock. NOMEM, or NOTFOUND: there is none; then it is not called. */
typedef void (*idem__errand_fn)(idem__mcp_endpoint *endpoint, void *arg);
idem_status idem__session_table_post(idem__session_table *table, idem__errand_fn fn, void *arg);
idem_status idem__news_write(idem_buf *out, const idem__mcp_news *news); /* as a message */
/* carry.c: the first of the numbers that questions of this process have; a watcher of news. */
uint64_t idem__carry_first_call(const idem__session_table *table);
void idem__carry_on_news(const idem__store_change *change, void *user);
/* Asks the process that answers on a stream whether it still does; where it does not it says so in the log (owner.c). */
void idem__carry_ask_stream(idem__mcp_endpoint *endpoint, const idem__http_session *session,
                            uint64_t stream);
/* What news carried, and lies there for who could not hear it. */
void idem__carry_hear(idem__session_table *table, const char *id, const char *text, size_t len);
/* What a letter to this process says, on the endpoint's thread. */
typedef enum idem__carry_open_end {
  IDEM__CARRY_OPENED,
  IDEM__CARRY_STRANGE, /* nobody here waits for it */
  IDEM__CARRY_AGAIN    /* there was no room: nothing happened */
} idem__carry_open_end;
idem__carry_open_end idem__carry_open(idem__mcp_endpoint *endpoint, const char *session,
                                      const char *text, size_t len);

/* letters.c: a message for the process that has a session's question or stream, as a record that it opens once. */
typedef struct idem__letter {
  uint32_t node;       /* whom it is for */
  const char *session; /* IDEM__SESSION_ID bytes */
  const char *text;
  size_t len;
} idem__letter;
/* `done` is called in any case, now or later: OK, it lies there; NOTFOUND: there is no such process any more; LIMIT, NOMEM, STATE:
 * it was not sent; else nobody knows. */
void idem__letter_send(idem__mcp_endpoint *endpoint, const idem__letter *letter,
                       idem__store_done done, void *user);
/* One for all, beside the news of it: who could not hear that reads it when the store is back. `node` is not looked at; nobody
 * asks first whether anybody lives. */
void idem__letter_leave(idem__mcp_endpoint *endpoint, const idem__letter *letter,
                        idem__store_done done, void *user);
/* letter_take.c: a watcher of letters. */
void idem__letters_on_change(const idem__store_change *change, void *user);
/* Of one nobody may have been told, and of another the store did not say enough: takes what is there. */
void idem__letters_look(idem__mcp_endpoint *endpoint);
void idem__letters_forget(idem__session_table *table); /* with the table, after its endpoints */
void idem__session_table_make_id(const idem__session_table *table, char id[IDEM__SESSION_ID + 1]);
/* An operation on a session's record. */
idem__store_op idem__http_session_op(const idem__http_session *session, idem__store_verb verb);
idem__store_op idem__session_table_op(idem__session_table *table, const char *id, size_t len,
                                      idem__store_verb verb);
void idem__session_table_see_time(idem__session_table *table, uint64_t now_ms);
/* With the lock held: the image goes; its record is gone or will be found again. */
void idem__http_session_forget(idem__http_session *session);
/* With the lock held: an image comes into the table, unless there is one; NULL: no memory. */
idem__http_session *idem__session_table_take_in(idem__session_table *table,
                                                idem__http_session *fresh);
/* session_share.c, all with the lock held: whose sessions there are. A session joins its holder with its coming into the table (NOMEM), and
 * leaves it with its going; and nobody uses it, or somebody does. */
idem_status idem__session_share_join(idem__http_session *session);
void idem__session_share_leave(idem__http_session *session);
void idem__session_share_set_idle(idem__http_session *session, bool idle);
/* Who makes room for one that is about to come; NULL: all are in use. */
idem__http_session *idem__session_share_victim(const idem__http_session *comer);
/* With the lock held: the session that nobody uses for the longest time; NULL: none. */
idem__http_session *idem__session_table_oldest(const idem__session_table *table);
/* Counts one more user; with the lock held. */
void idem__http_session_hold(idem__http_session *session);
/* Around a change of our own, of which the store's watchers then tell us nothing new. */
void idem__http_session_busy(idem__http_session *session, bool begin);

/* mcp_record.c: a session as bytes. With the lock held. */
idem_status idem__record_write(const idem__http_session *session, idem_buf *out);
/* Makes an image of a record, or (into an image) takes over what may change. INVAL: not a session of
 * ours. */
idem_status idem__record_read(idem__session_table *table, const char *text, size_t len,
                              idem__http_session *into, idem__http_session **out);
idem__http_session *idem__http_session_new(idem__session_table *table, const char *principal,
                                           const idem__revision *revision, yyjson_val *params);
void idem__http_session_destroy(idem__http_session *session);

/* ------------------------------------------------------------ rate limits */

/* rates.c: shares a limit with the processes that have the same one and the same store; OK and NULL where the server has
 * a store of its own. It ends before its limiter goes. */
typedef struct idem__rates idem__rates;
typedef struct idem__rate {
  const char *kind; /* what it limits, a word; limits of different kinds are apart */
  uint32_t count, seconds;
} idem__rate;
idem_status idem__rates_share(idem_server *server, const idem__rate *rate, idem__limiter *limiter,
                              idem__rates **out);
void idem__rates_end(idem__rates *rates); /* takes NULL */

/* ------------------------------------------------------- sessions elsewhere */

/* lost.c: the store may have lost sessions that are remembered here, or was away when somebody ended or changed them. */
void idem__sessions_look_for_lost(idem__mcp_endpoint *endpoint);

/* remind.c: nobody kept what was told since some time: what may have changed is told. */
void idem__http_session_remind(idem__http_session *session);
/* ... of its resources alone, if it is told here: what was told while the store was away nobody heard. */
void idem__http_session_remind_of_resources(idem__http_session *session);
/* It came here from a node whose record was there, and who died shortly before has one, too: where it is gone within a lease, what may have changed
 * is told. "": it is known to be dead, and nobody was told yet. */
void idem__http_session_doubt(idem__http_session *session, const char *listener);
/* With the lock held: nothing was missed, or nobody wants to know any more. */
void idem__http_session_trust(idem__http_session *session);
/* The nodes were looked at: those that came from one which has gone are told. */
void idem__session_table_remind(idem__session_table *table);
/* A watcher of nodes: one that leaves by itself has kept everything until then. */
void idem__remind_on_node(const idem__store_change *change, void *user);

/* lookup.c: GET and DELETE, which name a session. */
void idem__mcp_lookup(idem__mcp_endpoint *endpoint, idem_http_exchange *exchange,
                      const idem_http_request *request);

struct idem__mcp_endpoint {
  idem_list link; /* in the table */
  idem__mcp_subscriber subscriber;
  const char *message_path;
  const char *upgrading; /* the principal of the WebSocket being made */
  bool upgrading_claimed;
  idem__grant *upgrading_grant; /* lent */
  idem__session_table *table;
  idem__mcp_worker *worker;
  idem_alloc alloc;
  idem__http_rpc *rpc;
  idem__store_queue *queue; /* what is asked of its sessions' store */
  unsigned orphans;         /* as the table said when we last looked */
  unsigned looks;           /* of its node at the others, when it last looked around itself */
  unsigned heard;           /* of `aways`, after which it has read what was told meanwhile */
  unsigned losses, aways;   /* of its store, after which it has looked for sessions: see lost.c */
  bool looks_for_lost;
  idem_list streams;
  idem_list sse_lines; /* see mcp_sse.c */
  uint64_t stream_ms;
  idem__http_refusal bad_version; /* names the revisions that are served */
};

/* One text for whatever needs the store and cannot have it. */
extern const idem__http_refusal idem__mcp_store_away;

/* Who asks: as the embedder says, or who the bearer of this token is, or "". True: it is a mere claim, a
 * header that nobody has checked. */
#define IDEM__PRINCIPAL (IDEM_PRINCIPAL_MAX + 1)
bool idem__mcp_principal(const idem_http_conn *conn, const idem_http_request *request,
                         char out[IDEM__PRINCIPAL]);

#endif
