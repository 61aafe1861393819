/* task.h - tasks in both forms: 2025-11-25's own and the extension of 2026-07-28.
 * A task is shared by threads under the tasks' lock; its context belongs to the thread of its worker. */
#ifndef IDEM_MCP_TASK_H
#define IDEM_MCP_TASK_H

#include "../store/store.h"
#include "node.h"
#include "nouns.h"

typedef enum idem__task_state {
  IDEM__TASK_WORKING,
  IDEM__TASK_INPUT,
  IDEM__TASK_COMPLETED,
  IDEM__TASK_FAILED,
  IDEM__TASK_CANCELLED
} idem__task_state;

/* A text of a task's, perhaps of megabytes: it never changes, so who counts it under the lock may read it
 * without. Ends in a NUL that is not counted. */
typedef struct idem__task_text {
  _Atomic unsigned refs;
  size_t charged; /* of max_task_bytes, as long as anybody has it */
  size_t len;
  char bytes[];
} idem__task_text;

/* A question a task's handler asked. */
typedef struct idem__task_ask_entry {
  idem__task_text *key;    /* the handler's; NULL in the image of somebody else's task */
  idem__task_text *name;   /* the peer's: never used twice in the life of a task */
  idem__task_text *json;   /* {"method","params"} */
  idem__task_text *answer; /* JSON object; NULL: not yet */
  bool sent;               /* 2025-11-25: asked on somebody's tasks/result */
} idem__task_ask_entry;

#define IDEM__TASK_ID 32

/* What is asked of the store is heard of on the queue's thread, now or later. */
typedef void (*idem__task_done)(idem__task *task, idem_status status, void *user);
/* The image, as the store has it. `loaded` gets it counted; NULL: there is none, or the status says why
 * nobody knows. Who forgets it (idem__store_forget) is not called. */
typedef struct idem__task_loading {
  idem_server *server;
  idem__store_queue *queue;
  idem__store_pending *pending;
  bool only_known; /* no image is made for a task that has none */
  bool changed;    /* it was another before */
  idem__task_done loaded;
  void *user;
  char id[IDEM__TASK_ID + 1];
} idem__task_loading;

/* One save at a time, for all that changed meanwhile. */
typedef struct idem__task_saving {
  idem__store_queue *queue;
  unsigned tries;
  bool fresh; /* the record was gone */
  bool bare;  /* there was no room for the outcome */
  idem__task_loading loading;
} idem__task_saving;

/* Shared by threads under the table's lock; `context` belongs to the worker's thread alone. One whose
 * handler runs elsewhere has no worker: its image shows what the store has. */
struct idem__task {
  idem_list link;   /* in the table, by creation */
  uint64_t version; /* of its record */
  unsigned busy;    /* changes of ours on their way to the store */
  bool dirty;       /* changed, and not in the store yet */
  bool saving, save_again;
  idem_status saved; /* what became of the last try */
  unsigned awaited;  /* requests that are answered when it is saved */
  idem__task_saving save;
  idem__task_done put_done; /* one at a time, too */
  void *put_user;
  idem__task *next_dirty;
  idem_server *server;
  unsigned refs;
  char id[IDEM__TASK_ID + 1];
  char node[IDEM__NODE_ID + 1]; /* whose handler runs it; "": nobody knows */
  char *principal;
  char *session; /* the name of the one that began it, told of its status; NULL: nobody is */
  const idem__revision *revision; /* ... in whose words */
  idem__mcp_worker *worker;
  idem__context *context; /* the handler's; NULL once it has answered */
  idem__task_state state;
  idem__task_text *message;
  uint64_t created_ms, updated_ms;
  idem__task_text *outcome; /* the result object, or the error object */
  bool is_error;
  bool cancel_asked;
  bool resume;
  idem__task_ask_entry *asks;
  size_t ask_count;
  uint64_t round; /* how often its handler has asked: answers belong to one round */
};

/* What peers and handlers make tasks keep, of all threads: false when there is no room. */
bool idem__tasks_charge(idem_server *server, size_t bytes);
void idem__tasks_release_bytes(idem_server *server, size_t bytes);
void idem__task_free_entries(idem_server *server, idem__task_ask_entry *entries, size_t count);

/* task_view.c: counted texts, and what a task was at a moment. */
idem__task_text *idem__task_text_new(idem_server *server, const char *bytes, size_t len);
/* Of one that nobody else has yet; false: there is no room. */
bool idem__task_text_charge(idem_server *server, idem__task_text *text);
/* Both take NULL. A task's own are counted with the lock held. */
idem__task_text *idem__task_text_ref(idem__task_text *text);
void idem__task_text_unref(idem_server *server, idem__task_text *text);
/* NULL of NULL. */
static inline const char *idem__task_text_bytes(const idem__task_text *text) {
  return text ? text->bytes : NULL;
}

/* Of a task that is counted meanwhile. Its texts may be large: they are written from here, without the
 * lock that all workers share. */
typedef struct idem__task_view {
  const idem__task *task; /* for what never changes */
  idem_status status;     /* NOMEM: it is not whole */
  idem__task_state state;
  bool is_error;
  uint64_t created_ms, updated_ms, round;
  idem__task_text *message, *outcome;
  idem__task_ask_entry *asks;
  size_t ask_count;
} idem__task_view;
/* With the lock held. To be ended without, in any case. */
idem__task_view idem__task_view_take(const idem__task *task);
/* ... takes the lock by itself. */
idem__task_view idem__task_view_of(const idem__task *task);
void idem__task_view_end(idem__task_view *view);
/* The members of a task, in the form of a revision; `detailed` adds what it asks for or came to. */
void idem__task_view_write(const idem__task_view *view, const idem__revision *revision,
                           bool detailed, idem__writer *writer);

/* "_meta" that says which task something belongs to (2025-11-25). */
void idem__task_write_related(const char *task_id, idem__writer *writer);

/* task_table.c: every function takes the lock by itself unless it says otherwise. */
idem_status idem__tasks_new(idem_server *server);
void idem__tasks_free(idem_server *server);
void idem__tasks_lock(idem_server *server);
void idem__tasks_unlock(idem_server *server);
/* Its image, counted for the context that becomes it, with its record still to be written by
 * idem__task_write_first. LIMIT: max_tasks of them are alive. */
idem_status idem__task_create(const idem__context *context, idem__task **out);
/* `written` gets the status alone; who finds it failed discards the task. */
void idem__task_write_first(idem__task *task, idem__store_queue *queue, idem__task_done written,
                            void *user);
/* One that nobody was told of goes, with its record. */
void idem__task_discard(idem__task *task);
/* A few whose time is over go. */
void idem__tasks_purge(idem_server *server);
void idem__task_unref(idem__task *task);
static inline bool idem__task_terminal(const idem__task *task) {
  return task->state >= IDEM__TASK_COMPLETED;
}
/* With the lock held: a new state; every worker will be told. */
void idem__task_set_state(idem__task *task, idem__task_state state);
/* Wakes the workers after such changes; without the lock. */
void idem__tasks_wake(idem_server *server);
/* The store was away, or has lost what it held: what it has not of this server's tasks is saved again, a few of them at a time. From any
 * thread. */
void idem__tasks_doubt(idem_server *server);
#define IDEM__TASKS_DOUBTED 64
/* The next ones, counted until each is settled; none while others are not. `other`: the store has it not as it was saved. */
size_t idem__tasks_take_doubted(idem_server *server, idem__task *some[IDEM__TASKS_DOUBTED]);
void idem__task_settle_doubt(idem__task *task, bool other);
/* What other threads left for this worker. */
void idem__tasks_deliver(idem__mcp_worker *worker);
/* The worker goes: its tasks that wait for input end, handlers of others are told to stop. */
void idem__tasks_forget_hub(idem__mcp_worker *worker);
/* Handlers of tasks run on it, or what came of one is not kept yet, and others could ask for it. On the worker's thread. */
bool idem__tasks_work(const idem__mcp_worker *worker);
/* What is said of a task whose process ended before it did. */
#define IDEM__TASK_DIED                                                                            \
  "{\"code\":-32603,\"message\":\"Internal error\",\"data\":{\"reason\":\"process-ended\"}}"
#define IDEM__TASK_DIED_WORDS "The process that ran this task has ended."
/* With the lock held: */
void idem__task_free_asks(idem__task *task);
void idem__task_release(idem__task *task);
/* ... has every worker told of the task as it is. */
void idem__task_tell(idem__task *task);
/* ... an image comes into the table; one that is there, not counted. */
idem_status idem__task_enter(idem_server *server, idem__task *task);
idem__task *idem__task_known(idem_server *server, const char *id);

/* task_record.c: tasks in the store. Without the lock. */
const char *idem__task_state_word(idem__task_state state);
/* Writes the record: a fresh one, within `limit` records, or in place of the version seen. By whoever saves. */
void idem__task_put(idem__task *task, idem__store_queue *queue, bool fresh, size_t limit,
                    idem__task_done done, void *user);
void idem__task_remove_record(const idem__task *task);
/* ... together with what others changed meanwhile. */
void idem__task_save(idem__task *task, idem__store_queue *queue);
/* Whoever wrote the first record has done with it: what changed meanwhile is saved. */
void idem__task_first_saved(idem__task *task, idem__store_queue *queue);
void idem__task_load(idem__task_loading *loading);
/* Asks the store for the versions of those that are in doubt. With each delivery. */
void idem__tasks_look_for_doubted(idem__mcp_worker *worker);
void idem__task_on_change(const idem__store_change *change, void *user);
/* Loads what others changed, where the store could not be asked on the spot. */
void idem__tasks_load_news(idem__mcp_worker *worker);
void idem__tasks_free_news(idem_server *server);
/* Shows at most `limit` tasks of a principal by birth, those after a number; false: enough. The image lives
 * for the call. Then says that it was all. */
typedef bool (*idem__task_each)(const idem__task *task, uint64_t number, void *user);
typedef struct idem__task_listing {
  idem_server *server;
  idem__store_queue *queue;
  const char *principal; /* lent until `listed` */
  uint64_t after;
  size_t limit;
  idem__task_each each;
  void (*listed)(idem_status status, void *user);
  void *user;
  idem_buf nodes; /* that live, one name after the other; known before the tasks are asked for */
  bool nodes_whole;
} idem__task_listing;
void idem__tasks_list(idem__task_listing *listing);

/* task_lease.c: tasks whose process died. Tells `checked` the task and the status, now or later; one that ran on a node
 * that is dead has failed then. The task, which may be NULL, is counted by the caller. */
void idem__task_check(idem__task *task, idem__store_queue *queue, idem_status status,
                      idem__task_done checked, void *user);
void idem__tasks_node_gone(idem_server *server, const char *node, size_t len);
void idem__task_listing_nodes(idem__task_listing *listing, idem__store_done done);
void idem__task_show_lost(idem__task *image, const idem__task_listing *listing);
/* With the lock held: the images, by creation. */
idem_list *idem__tasks_all(idem_server *server);

/* task.c */
bool idem__task_possible(const idem__context *context);
/* Before a tool's handler: makes the request a task where tool and peer want one; false: refused, or it is to
 * wait, and the handler runs when it has. */
bool idem__task_admit(idem__context *context, yyjson_val *params);
/* The handler's answer, for the task: a result object or an error object. Ends the request. */
idem_status idem__task_finish(idem__context *context, bool is_error, bool tool_failed,
                              const char *json, size_t len);
/* The handler let go of the request without an answer. */
void idem__task_abandon(idem__context *context);
/* With the lock held: there is no room for the outcome of a task, which has failed then. */
void idem__task_lose_outcome(idem__task *task);
/* What a capability object says, {"list":{},...}; nothing where there are no tasks. */
void idem__tasks_write_capability(const idem__context *context, idem__writer *writer);
/* On the worker's thread: acts on what happened to one of its tasks. */
void idem__task_act(idem__task *task);
#define IDEM__TASKS_EXTENSION "io.modelcontextprotocol/tasks"
#define IDEM__TASKS_REQUIRED "{\"extensions\":{\"" IDEM__TASKS_EXTENSION "\":{}}}"
/* The peer of 2026-07-28 knows tasks. */
bool idem__task_declared(const idem__context *context);
/* With the lock held: what its status says from now on; takes the text, which may be NULL. */
void idem__task_set_words(idem__task *task, idem__task_text *words);
/* What a task keeps, parsed; NULL: no memory. */
yyjson_doc *idem__task_read(const idem_server *server, const char *json, size_t len);

/* task_method.c: calls it with the task that the params name, now or later, or refuses. */
typedef void (*idem__task_fn)(idem__context *context, idem__task *task);
void idem__with_task(idem__context *context, yyjson_val *params, idem__task_fn fn);
/* On the worker's thread: answers who waited until a change was kept, or could not be. */
void idem__tasks_answer_saved(idem__mcp_worker *worker);

/* task_result.c: answers, or asks, who waits for its result on this worker. */
void idem__task_answer_waiters(idem__mcp_worker *worker, idem__task *task);
/* ... whether their tasks still run, where the nodes were looked at. With each delivery. */
void idem__task_look_for_waiters(idem__mcp_worker *worker);

/* task_input.c */
idem_status idem__task_ask(idem__context *context, const idem_ask *asks, size_t count,
                           const void *state, size_t state_len);
/* Takes those of the answers, by name, that fit their questions; when none is missing the task goes on.
 * LIMIT: there is no room. */
idem_status idem__task_take_answers(idem__task *task, idem__context *context, yyjson_val *answers);
/* On the worker's thread: runs the handler again with the answers. */
void idem__task_resume(idem__task *task);
/* 2025-11-25: sends open questions on the conn of a tasks/result; false: they could not all be sent, and
 * somebody else may be asked. */
bool idem__task_send_asks(idem__task *task, idem__context *waiter);

#endif
