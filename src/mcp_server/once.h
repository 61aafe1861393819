/* once.h - calls that happen once: a request may carry a key, and whoever comes again with the same key
 * and the same arguments gets the answer of the first. A *once* is such a key while this server has to do with
 * it: who runs the call, and who waits for its answer. What is known beyond that is a record in the store, so that
 * it holds for all who share it. See docs/internals/mcp_server.md. */
#ifndef IDEM_MCP_ONCE_H
#define IDEM_MCP_ONCE_H

#include "../mcp/once_key.h"
#include "../store/store.h"
#include "node.h"
#include "nouns.h"
#include "worker.h"

/* ----------------------------------------------------------------- records */

typedef enum idem__once_state {
  IDEM__ONCE_RUNNING, /* on a node */
  IDEM__ONCE_ASKED,   /* its client is asked something: whoever comes next runs it again */
  IDEM__ONCE_DONE,    /* `text` is what it came to */
  IDEM__ONCE_UNKEPT,  /* it is over, and there was no room for the answer */
  IDEM__ONCE_UNKNOWN  /* its node died, or it was broken off: nobody knows what it came to */
} idem__once_state;
#define IDEM__ONCE_STATES 5

/* What the store has of a key. */
typedef struct idem__once_record {
  idem__once_state state;
  bool is_error;
  uint8_t digest[IDEM_SHA256_BYTES]; /* of the arguments */
  char node[IDEM__NODE_ID + 1];      /* that runs it; "": none */
  const char *text;                  /* the result, or the error object; lent */
  size_t len;
} idem__once_record;
idem_status idem__once_record_write(const idem__once_record *record, idem_buf *out);
/* False: not one of ours. */
bool idem__once_record_read(const char *bytes, size_t len, idem__once_record *out);

/* Of a value: the same for texts that say the same, whatever the order of members and however numbers are spelled.
 * LIMIT: too deep; NOMEM. */
idem_status idem__digest_value(const idem_alloc *alloc, yyjson_val *val,
                               uint8_t digest[IDEM_SHA256_BYTES]);

/* The key that a request carries. */
typedef struct idem__once_key {
  const char *text; /* NULL: none */
  size_t len;
} idem__once_key;
/* False: refused. `header_alone`: one in _meta means nothing. */
bool idem__once_read_key(idem__context *context, bool header_alone, idem__once_key *key);
/* False: it is refused, an element of a batch that came with a header's key. */
bool idem__once_pass_batch(idem__context *context);
/* Whether a call that is repeated may go on: where its key is not kept, or others than it was asked with first, nobody knows whether it
 * ran, and it is not run again. False: refused. */
bool idem__once_pass_repeat(idem__context *context, const idem__once_key *key, bool kept);
/* For how long its outcome is kept: its client may need it for less time than others. */
uint64_t idem__once_ttl(const idem__context *context);
/* The name of its record: keys belong to a principal and to what is called. */
void idem__once_name_of(const char *principal, const char *method, const char *called,
                        size_t called_len, const idem__once_key *key,
                        uint8_t name[IDEM_SHA256_BYTES]);
void idem__once_name(const idem__context *context, const char *called, size_t called_len,
                     const idem__once_key *key, uint8_t name[IDEM_SHA256_BYTES]);
/* The group of its record: all keys of a principal, which are bounded together. */
#define IDEM__ONCE_GROUP 32
void idem__once_group(const char *principal, char group[IDEM__ONCE_GROUP + 1]);

/* ------------------------------------------------------------------ answers */

/* What a call came to, for all who wait. Counted; it never changes. */
typedef struct idem__once_text {
  _Atomic unsigned refs;
  idem_alloc alloc;
  bool is_error;
  size_t len;
  char bytes[];
} idem__once_text;
idem__once_text *idem__once_text_new(const idem_alloc *alloc, bool is_error, const char *bytes,
                                     size_t len);
idem__once_text *idem__once_text_ref(idem__once_text *text); /* both take NULL */
void idem__once_text_unref(idem__once_text *text);
/* Answers with it; `replayed` is told. */
void idem__once_reply(idem__context *context, const idem__once_text *text, bool replayed);
/* The same for one of many who waited for it: the worker keeps what it made of the text for the next of them, */
void idem__once_reply_next(idem__context *context, idem__once_text *text);
/* until they are through. */
void idem__once_forget_marked(idem__mcp_worker *worker);

/* Why a call with a key is not run and has no answer to be given. */
typedef enum idem__once_refusal {
  IDEM__ONCE_OTHER,       /* the key was used with other arguments */
  IDEM__ONCE_TASK,        /* it became a task, which the caller cannot follow */
  IDEM__ONCE_LOST,        /* outcome-unknown */
  IDEM__ONCE_FORGOTTEN,   /* ... since the keys it was asked with are gone */
  IDEM__ONCE_TOO_LARGE,   /* answer-not-kept */
  IDEM__ONCE_FULL,        /* too-many-keys */
  IDEM__ONCE_SHARE,       /* too-many-keys-of-caller */
  IDEM__ONCE_UNAVAILABLE, /* the store does not say */
  IDEM__ONCE_GOING,       /* ... or this server goes; the reason is the same, its words are not */
  IDEM__ONCE_MEMORY,      /* ... or there is no memory for it */
  IDEM__ONCE_BUSY,        /* ... or others took the key and let go of it each time that we looked */
  IDEM__ONCE_BROKEN,      /* ... or it was broken off, and may be made again */
  IDEM__ONCE_TAKEN        /* it ran, and was taken from this node as from a dead one */
} idem__once_refusal;
void idem__once_refuse(idem__context *context, idem__once_refusal why);

/* -------------------------------------------------------------------- flow */

typedef struct idem__once idem__once;
typedef struct idem__once_table idem__once_table;

idem_status idem__onces_new(idem_server *server);
void idem__onces_free(idem_server *server); /* after the workers */

/* Before what is called runs, in its handler: true, it may, now. False: answered, refused, or it waits; when it has
 * waited and may run `go_on` is called as a handler is. */
typedef void (*idem__once_fn)(idem__context *context);
bool idem__once_admit(idem__context *context, const uint8_t name[IDEM_SHA256_BYTES],
                      yyjson_val *arguments, idem__once_fn go_on);
/* The call of this context became a task, of which its peer was told with this result: that is what its key
 * names from now on. */
void idem__once_became_task(idem__context *context, const char *json, size_t len);
/* The request ends without an answer. */
void idem__once_abandon(idem__context *context);
/* A client gives up the call of this name, and its connection goes or has gone: if nobody else waits, it is cancelled, at whichever
 * node it runs. */
void idem__once_give_up(idem_server *server, const uint8_t name[IDEM_SHA256_BYTES]);

/* On the worker's thread: what others left for its keys. */
void idem__once_deliver(idem__mcp_worker *worker);
/* ... time has passed: records that could not be written are tried again, those elsewhere looked at. */
void idem__once_tick(idem__mcp_worker *worker);
/* ... the worker goes: handlers of its calls are told. */
void idem__once_forget_worker(idem__mcp_worker *worker);
/* A call with a key runs there, or its answer is on its way to the store; its client may have gone. */
bool idem__once_works(const idem__mcp_worker *worker);
/* Some of its keys want idem__once_tick. */
bool idem__once_waits(const idem__mcp_worker *worker);
/* Watchers of the store: a key's record, a node's. */
void idem__once_on_change(const idem__store_change *change, void *user);
void idem__once_on_node(const idem__store_change *change, void *user);

/* ------------------------------------------------- inside: once.c and its sisters */

typedef enum idem__once_stage {
  IDEM__ONCE_ASKING,    /* the store is asked for the key */
  IDEM__ONCE_ELSEWHERE, /* another node runs it */
  IDEM__ONCE_AT_WORK,   /* its handler runs here */
  IDEM__ONCE_STORING,   /* it has answered; the store is told */
  IDEM__ONCE_UNSAVED    /* the store did not take it: kept here, and tried again */
} idem__once_stage;

/* Driven by the thread of its worker; what others touch, stage, callers and flags, is under the table's lock.
 * At most one operation of the store is under way for it, or it waits for a turn, and it is not freed before that has
 * ended. */
struct idem__once {
  idem_server *server;
  idem__mcp_worker *worker;
  idem_list flagged_link; /* in the table, when its worker is to look at it */
  idem__posted posted;    /* the key is ours, and it waits for a turn to run */
  uint8_t name[IDEM_SHA256_BYTES];
  char group[IDEM__ONCE_GROUP + 1];  /* of its record: the keys of one principal */
  uint8_t digest[IDEM_SHA256_BYTES]; /* from AT_WORK on */
  uint64_t version;                  /* of its record, as we wrote it */
  uint64_t ttl_ms;                   /* of its outcome */
  idem__once_stage stage;
  unsigned tries;
  bool may_repeat; /* idempotentHint: it may run again where nobody knows */
  bool
      asked_before; /* somebody repeats it, or its record was there and has gone: it runs in the same store alone */
  char store_name[IDEM__ONCE_STORE_ID + 1]; /* that one, as it was called when somebody came */
  bool forgotten;                           /* ... which this is not */
  bool anew;     /* its record has gone while it ran: it is written, not changed */
  bool judged;   /* the digest is that of the record */
  bool left;     /* the one whose request runs it has cancelled it, */
  bool away;     /* or has lost its connection */
  bool unwanted; /* somebody has given it up by its key */
  bool cancel;   /* nobody is left here: where nobody is elsewhere its handler is to be told, */
  bool decided;  /* and is being told */
  uint32_t came; /* to wait elsewhere, when who still does was last asked to say so; */
  uint64_t called_ms; /* who has not by then is dead. By the wall clock; 0: nobody was asked */
  uint32_t counted;   /* how often the record says that we wait */
  uint32_t looks;     /* at that record since, for the owner is asked less and less often */
  uint64_t announced; /* the version of the record that says that we wait; 0: none does */
  uint64_t disowned;  /* the version of the record that the node it names has nothing to do with */
  char owner[IDEM__NODE_ID + 1]; /* that node */
  bool ending;                   /* its worker goes */
  bool asked, not_run;    /* how the run ended: with a question; before its handler did anything */
  bool unmet;             /* ... with what its client lacks, which another may have */
  bool bare;              /* there was no room for the answer */
  bool broken;            /* its handler was told to end, and gave none */
  bool doubtful;          /* nobody knows whether the record names us; nothing ran */
  bool waits;             /* the log was told that the store did not take what it came to */
  bool answering, stored; /* the handler is on the stack; the store answered meanwhile */
  idem_status saved;
  idem_list callers; /* who waits, the one whose request runs it apart */
  idem__context *runner;
  idem__once_text *outcome;
};

typedef enum idem__once_verdict {
  IDEM__ONCE_RUN,
  IDEM__ONCE_REPLAY,
  IDEM__ONCE_REFUSED,
  IDEM__ONCE_AGAIN /* begin anew */
} idem__once_verdict;

/* A request that waits for what becomes of a key. */
typedef struct idem__once_caller {
  idem_list link; /* in once->callers */
  idem__posted posted;
  idem__once *once;
  idem__context *context; /* NULL: it went */
  idem__mcp_worker *worker;
  idem__once_fn go_on;
  uint8_t name[IDEM_SHA256_BYTES];
  uint8_t digest[IDEM_SHA256_BYTES];
  bool inside; /* still in idem__once_admit */
  bool run;    /* ... and it may run */
  bool sent;   /* on its way to its own thread */
  idem__once_verdict verdict;
  idem__once_refusal refusal;
  idem__once_text *text;
} idem__once_caller;

struct idem__once_table {
  idem__lock lock;
  idem_map by_name;
  idem_list flagged;
  _Atomic size_t waiting; /* that want to be looked at with time */
  _Atomic size_t doubts;  /* of them, those in doubt */
  _Atomic size_t called;  /* of which was asked who waits for them */
  atomic_bool told;       /* the log: of this outage of the store */
};
/* once_table.c */
void idem__once_lock(idem_server *server);
void idem__once_unlock(idem_server *server);
/* With the lock held: */
void idem__once_flag(idem__once *once);
void idem__once_set_stage(idem__once *once, idem__once_stage stage);
/* Nobody finds it any more. */
void idem__once_leave_table(idem__once *once);
/* Without it. */
void idem__once_free(idem__once *once);

/* once_wait.c: all who wait are told. */
void idem__once_tell(idem__once *once, idem__once_verdict verdict, idem__once_refusal refusal);
/* ... and it goes; nobody finds it from then on. */
void idem__once_settle(idem__once *once, idem__once_verdict verdict, idem__once_refusal refusal);
/* Those with other arguments alone. */
void idem__once_refuse_others(idem__once *once);
/* On the thread of the one that waited, out of the list. */
void idem__once_act(idem__once_caller *caller);

/* once.c: the store is asked. That nobody has it, or that it is the version we saw; what it says. */
void idem__once_take(idem__once *once, uint64_t expect);
void idem__once_look(idem__once *once);
idem__store_op idem__once_op(const idem__once *once, idem__store_verb verb);
/* What is for good lives as long as its client needs it. */
void idem__once_put(idem__once *once, const idem__once_record *record, uint64_t expect,
                    idem__store_done done);

/* once_others.c: who waits for the key at other nodes. We do, for as long as somebody waits here. */
void idem__once_announce(idem__once *once);
/* The store was away, and may have lost what was written last: who runs what is asked again soon. On any thread. */
void idem__once_doubt_owners(idem_server *server);
typedef struct idem__once_gone {
  idem_server *server;
  uint8_t name[IDEM_SHA256_BYTES];
  uint32_t counted;
  bool for_good; /* the last did not lose its connection: it wants no answer */
} idem__once_gone;
/* With the lock held: nobody does any more; true: that is to be said (idem__once_went, without it). */
bool idem__once_withdraw(idem__once *once, idem__once_gone *gone);
void idem__once_went(const idem__once_gone *gone);
/* Nobody is left here: if nobody waits elsewhere its handler is told. On its worker's thread. */
void idem__once_ask_others(idem__once *once);
/* With the lock held: has its worker do so. */
void idem__once_cancel_soon(idem__once *once);
void idem__once_on_news(idem_server *server, const char *text, size_t len);
/* Has those of the worker's looked at whose time is over, of which was asked who waits for them. */
void idem__once_flag_called(idem__mcp_worker *worker);
/* It goes. */
void idem__once_end_call(idem__once *once);

/* once_owner.c: a record that names a node which lives, and has nothing to do with it. That node is asked. */
void idem__once_ask_owner(const idem__once *once);
/* Such a question, or the answer; false: neither. */
bool idem__once_on_owner_news(idem_server *server, const char *text, size_t len);

/* once_doubt.c: nobody knows whether the key is ours. */
void idem__once_doubt(idem__once *once);
/* What never ran was given back, and who waits is told so; where nobody knows whether it is, it is in doubt. */
void idem__once_gave_back(idem__once *once, const idem__store_answer *answer,
                          idem__once_verdict verdict);
void idem__once_look_in_doubt(idem__once *once);

/* once_run.c: the key is ours, one of those who wait runs it, in this turn or the next. */
void idem__once_start(idem__once *once);
/* What the run came to, for the store. */
void idem__once_store(idem__once *once);
/* The record goes, if it is still as we wrote it. */
void idem__once_give_back(idem__once *once, idem__store_done done);
/* Why who comes gets none, where the run left no text. */
idem__once_refusal idem__once_why_none(const idem__once *once);
void idem__once_cancel_runner(idem__once *once);
/* The server goes, and has waited for it: its handler, which alone knows whether anything was done, is told before its client is. It goes
 * on for others who wait. */
void idem__once_end(idem__once *once);
/* Its handler has not come to an end, and nobody waits for it any more. */
bool idem__once_is_broken_off(const idem__once *once);

#endif
