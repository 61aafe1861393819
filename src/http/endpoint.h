/* endpoint.h - the JSON-RPC endpoint's parts: answers to POST, and WebSockets.
 * For the files of this folder alone. See docs/internals/http.md. */
#ifndef IDEM_HTTP_ENDPOINT_H
#define IDEM_HTTP_ENDPOINT_H

#include "../rpc/rpc.h"
#include "rpc_endpoint.h"

/* One POST being answered by a conn of the engine. Calls are pooled with their conns: between
 * requests such a conn owes nothing and may serve the next peer. */
typedef struct idem__http_left idem__http_left;
typedef struct idem__http_serving {
  struct idem__http_serving *next; /* in the pool */
  idem_list link;                  /* in rpc->active */
  idem__http_rpc *rpc;
  idem_conn *conn;
  idem_http_exchange *exchange; /* NULL: the peer is gone */
  uint64_t stream_at_ms;        /* when to become a stream, or for the next comment */
  uint32_t retry_s;
  bool accepts_stream, stream_only, streaming, admitted, limited;
  bool detached; /* the peer is gone and the work goes on */
  bool begun;    /* the protocol has seen it begin and not end */
  bool writing;  /* the protocol will write what was begun: nothing more is taken until then */
  bool beginning, leaving, cancelled; /* what comes after it is written */
  bool refused;                       /* nothing of what came is begun */
  bool in_batch;                      /* some of its elements wait for a turn */
  bool asked;                         /* a request was in what came */
  bool acknowledging; /* nothing is owed but a status, which waits for the protocol */
  bool in_hand;
  idem__message_kind silent_kind; /* acknowledging: of what */
  idem__late late;                /* in line for a turn to be taken in */
  idem__http_left *left;          /* whose it is, where its peer has gone; else NULL */
  idem_chunk chunk;               /* in_hand: the message being written */
  _Alignas(16) char state[];
} idem__http_serving;

/* Who asked what goes on, though nobody is there any more: what it still begins counts as theirs. */
struct idem__http_left {
  idem__ip client;
  uint64_t now_ms; /* when they went */
  char peer[];     /* for the log */
};

struct idem__http_rpc {
  idem_alloc alloc;
  idem__http_rpc_opts opts;
  idem_policy policy;
  idem_pool *pool;
  idem__http_serving *idle;
  size_t idle_count;
  idem_list active;
  size_t detached_count; /* of these, without a peer */
  uint64_t tended_ms;    /* when those were last looked at */
  idem_buf event;        /* an event under construction */
#define IDEM__TAKES_JSON 1u
#define IDEM__TAKES_STREAM 2u
  char accept[64]; /* the Accept judged last: nearly always the next one, too */
  size_t accept_len;
  unsigned accept_takes; /* what was found */
};

idem_status idem__http_rpc_conn(idem__http_rpc *rpc, void *user,
                                void (*on_output)(idem_conn *conn, void *user),
                                bool (*admit)(idem_conn *conn, void *user), const char *peer,
                                idem_conn **out);

const idem__http_protocol *idem__http_protocol_of(const idem__http_serving *serving);
const idem__http_rules *idem__http_rpc_rules(const idem__http_rpc *rpc);
/* The call is over. */
void idem__http_serving_retire(idem__http_serving *serving);
/* With its conn: what handlers look at, and that is the protocol's, goes after it. */
void idem__http_serving_free(idem__http_serving *serving);
/* It goes on without its peer, or no longer does. */
void idem__http_serving_detach(idem__http_serving *serving, bool detached);
/* Its exchange, which is still there, is its no more. */
void idem__http_serving_leave_exchange(idem__http_serving *serving);

/* serving.c */
extern const idem__http_refusal idem__http_no_memory;
extern const idem__http_refusal idem__http_going;
/* Moves what the engine has said to the peer, one message after the other. */
void idem__http_serving_pump(idem__http_serving *serving);
/* The message is taken in and not answered yet; or it may not even begin. False: it cannot be kept, and is to be
 * taken in now, as one that the protocol has given up. */
void idem__http_serving_wait(idem__http_serving *serving);
void idem__http_serving_wait_for_turn(idem__http_serving *serving);
/* What it waited for will not come, nor another turn. */
void idem__http_serving_begin_at_once(idem__http_serving *serving);
/* It waits for a turn that it will not have. */
void idem__http_serving_refuse_late(idem__http_serving *serving);
bool idem__http_serving_wait_to_begin(idem__http_serving *serving,
                                      const idem_http_request *request);
void idem__http_serving_refuse(idem__http_serving *serving, const idem__http_refusal *refusal);
/* Nothing is owed: a notification, a response, or a request cancelled without an answer. */
void idem__http_serving_finish_silent(idem__http_serving *serving, idem__message_kind kind);
/* The same, when the protocol has heard of what came of it. */
void idem__http_serving_acknowledge(idem__http_serving *serving, idem__message_kind kind);
/* What came cancelled itself all that it asked: no answer, and no acknowledgement either. */
void idem__http_serving_finish_cancelled(idem__http_serving *serving);
/* Ours to answer for, whatever it was. */
void idem__http_serving_finish_failed(idem__http_serving *serving, idem_status status);
/* There is room, or output: what the engine held back may go on. */
void idem__http_serving_look(idem__http_serving *serving);

/* serving_stream.c: its answer as an event stream. From commit on the status is 200, whatever comes. */
void idem__http_serving_commit(idem__http_serving *serving);
/* For one that ends without an answer. */
void idem__http_serving_commit_empty(idem__http_serving *serving);
void idem__http_serving_comment(idem__http_serving *serving);
/* Takes the chunk. False: it was the answer, and the call is over. */
bool idem__http_serving_event(idem__http_serving *serving, idem_chunk *chunk);

#endif
