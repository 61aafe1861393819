/* task_lease.c - tasks whose process died while they ran: whoever looks at one says that it has failed, for nobody else
 * will. A task's record names the node whose handler runs; see node.h. */
#include "once.h"
#include "server.h"
#include "task.h"

#include <string.h>

static const char died[] = IDEM__TASK_DIED;
static const char words[] = IDEM__TASK_DIED_WORDS;

/* With the lock held: its handler runs, or ran, on a node that is not this one. */
static bool is_foreign(const idem__task *task) {
  return !task->worker && !idem__task_terminal(task) && task->node[0] &&
         !idem__node_is_own(task->server, task->node);
}

/* With the lock held. */
static void fail(idem__task *task) {
  idem_server *server = task->server;
  idem__task_text_unref(server, task->outcome);
  task->outcome = idem__task_text_new(server, died, sizeof died - 1);
  task->is_error = true;
  idem__task_set_words(task, idem__task_text_new(server, words, sizeof words - 1));
}

/* ----------------------------------------------------------------- one task */

typedef struct checking {
  idem__task *task; /* counted by who asks, until it is told */
  idem_status status;
  idem__task_done checked;
  void *user;
} checking;

static void lose(idem__task *task) {
  idem__tasks_lock(task->server);
  bool lost = is_foreign(task);
  if (lost) {
    fail(task);
    idem__task_set_state(task, IDEM__TASK_FAILED);
  }
  idem__tasks_unlock(task->server);
  if (lost) idem__tasks_wake(task->server);
}

static void on_node(const idem__store_answer *answer, void *user) {
  checking self = *(checking *)user;
  idem__free(&self.task->server->alloc, user);
  if (answer->status == IDEM_E_NOTFOUND) lose(self.task);
  self.checked(self.task, self.status, self.user);
}

/* Without memory it is shown as it is. */
void idem__task_check(idem__task *task, idem__store_queue *queue, idem_status status,
                      idem__task_done checked, void *user) {
  char node[IDEM__NODE_ID + 1] = "";
  if (task) {
    idem__tasks_lock(task->server);
    if (is_foreign(task)) memcpy(node, task->node, sizeof node);
    idem__tasks_unlock(task->server);
  }
  checking *self = node[0] ? idem__malloc(&task->server->alloc, sizeof *self) : NULL;
  if (!self) {
    checked(task, status, user);
    return;
  }
  *self = (checking){.task = task, .status = status, .checked = checked, .user = user};
  idem__node_find(task->server, queue, node, on_node, self);
}

/* --------------------------------------------------------------- all of them */

/* Images that somebody waits for, or looked at lately: those who wait hear of it. */
void idem__tasks_node_gone(idem_server *server, const char *node, size_t len) {
  bool any = false;
  if (!server->tasks || len != IDEM__NODE_ID) return;
  idem__tasks_lock(server);
  idem_list *all = idem__tasks_all(server);
  for (idem_list *at = all->next; at != all; at = at->next) {
    idem__task *task = IDEM_CONTAINER(at, idem__task, link);
    if (!is_foreign(task) || memcmp(task->node, node, len) != 0) continue;
    fail(task);
    idem__task_set_state(task, IDEM__TASK_FAILED);
    any = true;
  }
  idem__tasks_unlock(server);
  if (any) idem__tasks_wake(server);
}

/* ------------------------------------------------------------------- a list */

static bool note_node(const idem__store_item *item, void *user) {
  idem__task_listing *listing = user;
  if (item->name_len != IDEM__NODE_ID) return true;
  listing->nodes_whole &= idem_buf_put(&listing->nodes, item->name, item->name_len) == IDEM_OK;
  return listing->nodes_whole;
}

void idem__task_listing_nodes(idem__task_listing *listing, idem__store_done done) {
  idem_server *server = listing->server;
  idem_buf_init(&listing->nodes, &server->alloc, (size_t)1 << 20);
  listing->nodes_whole = true;
  idem__store_op op = {.verb = IDEM__STORE_LIST,
                       .space = IDEM__STORE_NODES,
                       .now_ms = idem__server_wall_ms(server),
                       .each = note_node,
                       .done = done,
                       .user = listing};
  idem__store_submit(server->store, listing->queue, &op, NULL);
}

/* An image of nobody else's, as a list shows it. */
void idem__task_show_lost(idem__task *image, const idem__task_listing *listing) {
  if (!is_foreign(image) || !listing->nodes_whole) return;
  for (size_t at = 0; at < listing->nodes.len; at += IDEM__NODE_ID) {
    if (memcmp(listing->nodes.data + at, image->node, IDEM__NODE_ID) == 0) return;
  }
  fail(image);
  image->state = IDEM__TASK_FAILED;
}
