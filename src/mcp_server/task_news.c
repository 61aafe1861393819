/* task_news.c - what other processes changed in tasks, by the store's own word: whoever waits for one here hears of it.
 * See docs/internals/store.md. */
#include "server.h"
#include "task.h"
#include "worker.h"

#include <string.h>

#define NEWS_MAX 1024 /* of others' changes that wait to be looked at; news is a hint */

/* Somebody else changed a task: whoever waits for it here must hear. */
typedef struct idem__task_news {
  struct idem__task_news *next;
  idem__task_loading loading;
} idem__task_news;

static void on_news_loaded(idem__task *task, idem_status status, void *user) {
  idem__task_news *news = user;
  idem_server *server = news->loading.server;
  bool changed = task && news->loading.changed;
  (void)status;
  idem__tasks_lock(server);
  if (changed) idem__task_tell(task);
  if (task) idem__task_release(task);
  idem__tasks_unlock(server);
  idem__free(&server->alloc, news);
  if (changed) idem__server_wake(server);
}

/* With the lock held: does anybody care? */
static bool is_news(idem_server *server, const char *id, uint64_t version) {
  const idem__task *known = idem__task_known(server, id);
  return known ? !known->busy && version > known->version : atomic_load(&server->listening) > 0;
}

/* An immediate store is asked on whichever thread this is, another by a worker. */
static void take_news(idem_server *server, idem__task_news *news) {
  if (server->store->kind->immediate) {
    idem__task_load(&news->loading);
    return;
  }
  idem__tasks_lock(server);
  news->next = server->task_news;
  server->task_news = news;
  server->task_news_count++;
  idem__tasks_unlock(server);
  idem__server_wake(server);
}

void idem__task_on_change(const idem__store_change *change, void *user) {
  idem_server *server = user;
  char id[IDEM__TASK_ID + 1] = {0};
  if (change->event != IDEM__STORE_WAS_PUT || change->name_len != IDEM__TASK_ID) return;
  memcpy(id, change->name, IDEM__TASK_ID);
  idem__tasks_lock(server);
  bool wanted = is_news(server, id, change->version) && server->task_news_count < NEWS_MAX;
  idem__tasks_unlock(server);
  idem__task_news *news = wanted ? idem__calloc(&server->alloc, sizeof *news) : NULL;
  if (!news) return;
  news->loading = (idem__task_loading){.server = server, .loaded = on_news_loaded, .user = news};
  memcpy(news->loading.id, id, sizeof id);
  take_news(server, news);
}

static idem__task_news *next_news(idem_server *server) {
  idem__tasks_lock(server);
  idem__task_news *news = server->task_news;
  if (news) {
    server->task_news = news->next;
    server->task_news_count--;
  }
  idem__tasks_unlock(server);
  return news;
}

void idem__tasks_load_news(idem__mcp_worker *worker) {
  for (idem__task_news *news; (news = next_news(worker->server));) {
    news->loading.queue = worker->store_queue;
    idem__task_load(&news->loading);
  }
}

void idem__tasks_free_news(idem_server *server) {
  for (idem__task_news *news; (news = next_news(server));) idem__free(&server->alloc, news);
}
