/* redis_store.h - the store in Redis: what its files share. See docs/internals/modules.md. */
#ifndef IDEM_MODULES_REDIS_STORE_H
#define IDEM_MODULES_REDIS_STORE_H

#include "../watchers.h"
#include "redis.h"

#include <hiredis.h>
#include <pthread.h>

typedef enum redis_script {
  REDIS_GET,
  REDIS_TOUCH,
  REDIS_PUT,
  REDIS_REMOVE,
  REDIS_APPEND,
  REDIS_READ,
  REDIS_COUNT,
  REDIS_LIST,
  REDIS_TELL,
  REDIS_SWEEP, /* nobody's operation: records whose time is over go */
  REDIS_JOIN,  /* a connection's first: whether the store is here, and how many parts it has */
  REDIS_SCRIPTS,
  REDIS_PEEK /* none: a command of Redis's own, which takes it a fraction of a script's time */
} redis_script;

#define REDIS_SHA_LEN 40
#define REDIS_BASE_MAX 96
#define REDIS_FAULT_MAX 200
#define REDIS_NODES 32
#define REDIS_SLOTS 16384u
#define REDIS_CLUSTER_PARTS 12u /* of a store that is made in a cluster, by who names no number */
#define REDIS_PAGE 64           /* entries or records that one answer holds */

/* What an answer makes of an operation. */
typedef enum redis_outcome {
  REDIS_DONE,  /* it has ended */
  REDIS_AGAIN, /* it is to be sent once more: a page further, or with its script */
  REDIS_ASIDE, /* it did not happen, and cannot here and now: a cluster is moving the store */
  REDIS_BROKEN /* no answer of ours: nothing from this connection can be believed */
} redis_outcome;

/* An operation on its way, with all that it points to behind it. */
typedef struct redis_job {
  idem_list link;
  redis_script script;
  idem__store_op op;
  size_t size;
  bool whole;            /* sent with the script's text, since Redis did not have it */
  uint64_t end;          /* of its command, among the bytes of its connection */
  uint64_t due_ms;       /* of its answer */
  uint64_t tried_ms;     /* when it was first sent; 0: it was not */
  bool heard;            /* its own answer is here, that of WAIT is not */
  redis_outcome outcome; /* what comes of it then */
  idem__store_answer answer;
  char *kept;   /* its bytes, or NULL */
  size_t shown; /* items so far: a list goes on from page to page */
} redis_job;

/* One of a cluster. */
typedef struct redis_node {
  char host[256];
  char port[8];
} redis_node;

/* One connection. */
typedef struct redis_line {
  bool open;
  unsigned greetings; /* answers to its first words that have not come */
  unsigned greeted;   /* and those that have */
  bool ready;
  bool broken; /* there was no memory for what belongs together */
  redisReader *reader;
  redisReplyObjectFunctions functions[2]; /* the reader's: with our bounds, and as they were */
  char *out;                              /* bytes to send: out[at..len] */
  size_t len, at, cap;
  uint64_t queued, sent; /* bytes of this connection so far */
  uint64_t due_ms;       /* of an answer to its first words, or to a PING; UINT64_MAX: of none */
  uint64_t ping_ms;      /* when to see whether it still stands */
} redis_line;

typedef struct redis_store {
  idem__store head;
  char base[REDIS_BASE_MAX]; /* "{prefix}", or the tag of another part */
  char channel[REDIS_BASE_MAX];
  char *user, *password;
  unsigned database, replicas;
  unsigned parts; /* that it was told of; 0: of none */
  size_t max_bytes, queued_count, queued_bytes;
  uint64_t wait_ms, grace_ms;
  void (*wake)(void *carrier);
  void (*stop)(void *carrier);
  void *carrier;
  /* The carrier's alone. */
  redis_line lines[IDEM__REDIS_LINES];
  idem_list flying;   /* in the order of their commands */
  idem_list aside;    /* not done by the node they were sent to; nothing goes past them */
  uint64_t resume_ms; /* when those go again */
  bool moving;        /* to another node, once no answer is owed */
  redis_node owner;   /* where to */
  bool owner_is_new;
  bool joining, joined; /* REDIS_JOIN is under way; was answered as it should be */
  bool stranger;        /* the store has another number of parts */
  uint64_t greeted_ms;  /* since when it waits to join */
  redis_node nodes[REDIS_NODES];
  unsigned node_count;
  char sha[REDIS_SCRIPTS][REDIS_SHA_LEN + 1];
  char fault[REDIS_FAULT_MAX];
  uint64_t lost_ms; /* since when it is not ready */
  bool was_ready;
  uint64_t clock_ms;   /* Redis's, when it last told; 0: never on this connection */
  uint64_t clocked_ms; /* ... and ours then */
  uint64_t sweep_ms;
  unsigned sweep_space;
  bool sweeping;
  idem__watchers watchers; /* has a lock of its own */
  /* Shared, under the lock. */
  pthread_mutex_t lock;
  idem_list queue;     /* not sent */
  size_t count, bytes; /* of what is not answered */
  bool refusing;       /* away for longer than the grace */
  bool ending;
  _Atomic unsigned there;      /* parts, as the store says; 0: not known yet */
  _Atomic uint64_t stopped_ms; /* tests stop the clock and move it; 0: it runs */
  _Atomic uint64_t asked, answered, unknown, refused;
  _Atomic bool is_ready;
} redis_store;

static inline redis_store *redis_of(idem__store *head) {
  return IDEM_CONTAINER(head, redis_store, head);
}

/* redis_parts.c: where they lie. */
unsigned redis_slot_of(const char *tag);
void redis_name_part(char *tag, size_t size, const char *stem, unsigned part, unsigned parts);

/* redis_scripts.c: a script's whole text, from malloc. NULL: no memory. */
char *redis_script_text(redis_script which);

/* redis_job.c: an operation, its command, and what an answer makes of it. */
redis_job *redis_job_new(const idem__store_op *op); /* NULL: no memory */
/* Calls `done` and frees it. */
void redis_job_end(redis_store *store, redis_job *job, const idem__store_answer *answer);
/* Whether what it shows must be with the replicas before anybody hears it. */
bool redis_job_seals(const redis_store *store, const redis_job *job);
/* The command, from hiredis: for redisFreeCommand. -1: no memory. */
long redis_job_format(redis_store *store, const redis_job *job, char **command);
/* Looks at the answer; DONE: *answer is what it came to, its bytes the reply's. */
redis_outcome redis_job_hear(redis_store *store, redis_job *job, const redisReply *reply,
                             uint64_t now_ms, idem__store_answer *answer);

/* redis_store.c: the queue. */
/* The next that is to be sent; NULL: none. */
redis_job *redis_take_job(redis_store *store);
void redis_put_back(redis_store *store, redis_job *job); /* it will be the next */
/* Ends what waits with the status. */
void redis_refuse_waiting(redis_store *store, idem_status status, bool refusing);
void redis_take_requests(redis_store *store);
void redis_set_fault(redis_store *store, const char *what, const char *text, size_t len);

/* redis_line.c: the connections. */
void redis_begin(idem__store *head, idem__redis_line which, uint64_t now_ms);
size_t redis_output(idem__store *head, idem__redis_line which, uint64_t now_ms, const char **bytes);
void redis_sent(idem__store *head, idem__redis_line which, size_t len);
bool redis_feed(idem__store *head, idem__redis_line which, const char *data, size_t len,
                uint64_t now_ms);
bool redis_tick(idem__store *head, idem__redis_line which, uint64_t now_ms, uint64_t *next_ms);
void redis_end(idem__store *head, idem__redis_line which, uint64_t now_ms);
bool redis_ready(idem__store *head);
bool redis_joined(idem__store *head);
void redis_take_back(redis_store *store); /* what was set aside is the next again */
void redis_line_close(redis_line *line);

/* redis_hello.c: the first words of a connection. */
bool redis_greet(redis_store *store, idem__redis_line which);
/* One answer to them. */
bool redis_hear_greeting(redis_store *store, idem__redis_line which, const redisReply *reply);
/* Adds to what is to be sent; false: no memory. */
bool redis_line_say(redis_line *line, int count, const char *const *words, const size_t *lens);
bool redis_line_put(redis_line *line, const char *bytes, size_t len);

/* redis_cluster.c: nodes. */
bool redis_learn_nodes(redis_store *store, const redisReply *reply); /* false: no answer to that */
bool redis_learn_owner(redis_store *store, const char *text, size_t len);
bool redis_place(idem__store *head, idem__redis_line which, unsigned attempt, char *host,
                 size_t host_size, char *port, size_t port_size);

/* redis_news.c: who is told of changes. */
bool redis_hear_news(redis_store *store, const redisReply *reply);
/* It was lost and is there again. */
void redis_tell_return(redis_store *store);
idem_status redis_watch(idem__store *head, idem__store_space space, idem__store_watch_fn fn,
                        void *user, idem__store_watcher **out);
void redis_unwatch(idem__store *head, idem__store_watcher *watcher);

#endif
