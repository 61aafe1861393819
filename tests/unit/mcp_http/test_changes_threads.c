/* test_changes_threads.c - one session that is changed at once on all threads of two processes: each change is made, none is lost, and
 * who goes while its changes wait in line takes nobody's turn along. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>

enum { NODES = 2, THREADS = 4, CHANGES = 8, ROUNDS = 4, ALL = NODES * THREADS * CHANGES };

static struct {
  idem__store *store;
  mcp_web opener, nodes[NODES]; /* the opener's store answers at once */
  char session[64];
  pthread_barrier_t together;
} world;

/* A thread with a queue of its own, as an endpoint has one. */
typedef struct asker {
  pthread_t thread;
  idem__session_table *table;
  unsigned node, number, round;
  bool leaves; /* without waiting for its changes */
  pthread_mutex_t lock;
  pthread_cond_t told;
  bool woken;
  idem__store_queue *queue;
  idem__http_session *session;
  unsigned made, failed;
} asker;

static void wake(void *user) {
  asker *self = user;
  pthread_mutex_lock(&self->lock);
  self->woken = true;
  pthread_cond_signal(&self->told);
  pthread_mutex_unlock(&self->lock);
}

static void await_word(asker *self) {
  pthread_mutex_lock(&self->lock);
  while (!self->woken) pthread_cond_wait(&self->told, &self->lock);
  self->woken = false;
  pthread_mutex_unlock(&self->lock);
  idem__store_queue_run(self->queue);
}

static void on_found(idem__http_session *session, idem_status status, void *user) {
  assert_int_equal(status, IDEM_OK);
  ((asker *)user)->session = session;
}

static void find(asker *self) {
  static const size_t head = sizeof "Mcp-Session-Id: " - 1;
  idem__session_finding finding = {
      .table = self->table, .queue = self->queue, .found = on_found, .user = self};
  memcpy(finding.id, world.session + head, sizeof finding.id);
  idem__http_session_load(&finding);
  while (!self->session) await_word(self);
}

static void on_changed(idem_status status, void *user) {
  asker *self = user;
  self->made += status == IDEM_OK;
  self->failed += status != IDEM_OK;
}

static void change(asker *self, unsigned which) {
  char uri[64];
  int len =
      snprintf(uri, sizeof uri, "x:%u-%u-%u-%u", self->round, self->node, self->number, which);
  idem__session_change subscribe = {
      .kind = IDEM__SESSION_SUBSCRIBE, .uri = uri, .uri_len = (size_t)len};
  idem__http_session_change(self->session, self->queue, &subscribe, on_changed, self);
}

static void *ask(void *user) {
  asker *self = user;
  idem__store_queue_opts opts = {.wake = wake, .user = self};
  assert_int_equal(idem__store_queue_new(&opts, &self->queue), IDEM_OK);
  find(self);
  pthread_barrier_wait(&world.together);
  for (unsigned i = 0; i < CHANGES; i++) change(self, i);
  while (!self->leaves && self->made + self->failed < CHANGES) await_word(self);
  idem__store_queue_free(self->queue);
  assert_int_equal(self->made + self->failed, CHANGES);
  idem__http_session_unref(self->session);
  return NULL;
}

static void start(asker *self) {
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->told, NULL);
  self->table = world.nodes[self->node].table;
  assert_int_equal(pthread_create(&self->thread, NULL, ask, self), 0);
}

static void finish(asker *self) {
  pthread_join(self->thread, NULL);
  pthread_cond_destroy(&self->told);
  pthread_mutex_destroy(&self->lock);
}

static void open_world(void) {
  static const later_store_opts later = {.seed = 7, .threaded = true};
  world.store = mcp_web_store();
  mcp_web_open(&world.opener, &(mcp_web_opts){.store = world.store});
  for (int i = 0; i < NODES; i++)
    mcp_web_open(&world.nodes[i], &(mcp_web_opts){.store = world.store,
                                                  .later = &later,
                                                  .server = {.max_subscriptions = 4 * ALL}});
  mcp_web_hello(&world.opener, "", world.session);
  pthread_barrier_init(&world.together, NULL, NODES * THREADS);
}

static void close_world(void) {
  pthread_barrier_destroy(&world.together);
  for (int i = 0; i < NODES; i++) mcp_web_close(&world.nodes[i]);
  mcp_web_close(&world.opener);
  idem__store_unref(world.store);
}

/* What the record says. */
static size_t subscriptions(void) {
  asker reader = {.table = world.opener.table};
  find(&reader);
  size_t count = reader.session->legacy.subscriptions.count;
  idem__http_session_unref(reader.session);
  return count;
}

static void run_round(unsigned round, bool some_leave, unsigned *made) {
  asker all[NODES * THREADS];
  for (unsigned i = 0; i < NODES * THREADS; i++)
    all[i] = (asker){.node = i % NODES,
                     .number = i / NODES,
                     .round = round,
                     .leaves = some_leave && i / NODES == 0};
  for (unsigned i = 0; i < NODES * THREADS; i++) start(&all[i]);
  for (unsigned i = 0; i < NODES * THREADS; i++) {
    finish(&all[i]);
    *made += all[i].made;
    if (!all[i].leaves) assert_int_equal(all[i].failed, 0);
  }
}

static void changes_of_one_session_are_all_made(void **state) {
  (void)state;
  unsigned made = 0;
  open_world();
  for (unsigned round = 0; round < ROUNDS; round++) {
    run_round(round, false, &made);
    assert_int_equal(made, (round + 1) * ALL);
    assert_int_equal(subscriptions(), made);
  }
  close_world();
}

/* Whose queue ends has its changes answered; they may be made or not. */
static void who_leaves_the_line_holds_nobody_up(void **state) {
  (void)state;
  unsigned made = 0;
  open_world();
  for (unsigned round = 0; round < ROUNDS; round++) run_round(round, true, &made);
  assert_true(made >= ROUNDS * NODES * (THREADS - 1) * CHANGES);
  assert_true(subscriptions() >= made);
  close_world();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(changes_of_one_session_are_all_made),
      cmocka_unit_test(who_leaves_the_line_holds_nobody_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
