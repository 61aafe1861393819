/* task.h - tasks in both forms: 2025-11-25's own and the extension of 2026-07-28.
 * A task is shared by threads under the tasks' lock; its context belongs to the thread of its worker. */
#ifndef IDEM_MCP_TASK_H
#define IDEM_MCP_TASK_H

#include "../store/store.h"
#include "nouns.h"

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
/* Shared by threads under the table's lock; `context` belongs to the worker's thread alone. One whose
 * handler runs elsewhere has no worker: its image shows what the store has. */
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
  idem__mcp_worker *worker;
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
/* With the lock held: a new state; every worker will be told. */
void idem__task_set_state(idem__task *task, idem__task_state state);
/* Wakes the workers after such changes; without the lock. */
void idem__tasks_wake(idem_server *server);
/* With the lock held: the members of a task, in the form of a revision; `detailed` adds what it
 * asks for or came to. */
void idem__task_write(const idem__task *task, const idem__revision *revision, bool detailed,
                      idem__writer *writer);
/* What other threads left for this worker. */
void idem__tasks_deliver(idem__mcp_worker *worker);
/* The worker goes: its tasks that wait for input end, handlers of others are told to stop. */
void idem__tasks_forget_hub(idem__mcp_worker *worker);
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
/* On the worker's thread: acts on what happened to one of its tasks, and answers who waits for it. */
void idem__task_act(idem__task *task);
void idem__task_answer_waiters(idem__mcp_worker *worker, idem__task *task);

/* task_input.c */
idem_status idem__task_ask(idem__context *context, const idem_ask *asks, size_t count,
                           const void *state, size_t state_len);
/* With the lock held: takes answers by key; true when none is missing any more. */
bool idem__task_take_answers(idem__task *task, yyjson_val *answers);
/* On the worker's thread: runs the handler again with the answers. */
void idem__task_resume(idem__task *task);
/* 2025-11-25: sends open questions on the conn of a tasks/result; false: they could not all be sent, and
 * somebody else may be asked. */
bool idem__task_send_asks(idem__task *task, idem__context *waiter);

#endif
