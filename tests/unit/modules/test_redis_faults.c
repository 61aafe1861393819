/* test_redis_faults.c - a real Redis that dies and comes back, and connections that a proxy of the test's cuts in the middle or
 * holds up: what was acknowledged is there, what is unknown is said to be, and what was never sent happens once. */
#include "modules/redis/redis.h"
#include "support/redis_server.h"
#include "support/unit.h"
#include "uv/redis.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

extern const idem__redis_module idem__redis_module_table;
static const idem__redis_module *const module = &idem__redis_module_table;

/* ---------------------------------------------------------------- the proxy */

typedef enum mode {
  PASS,
  CUT_COMMAND, /* half of what has the mark in it goes through, then every connection ends */
  CUT_ANSWER,  /* what has the mark in it goes through, and what Redis says next does not */
  HOLD_ANSWERS,
  HOLD_ALL
} mode;

#define MARK "victim"
#define PAIRS 16
#define PIECE 65536

typedef struct proxy {
  char path[96];
  const redis_server *server;
  int listener, wake[2];
  _Atomic int mode;
  _Atomic bool ending;
  bool marked;
  int pairs[PAIRS][2]; /* the client's and Redis's end; -1: none */
  pthread_t thread;
} proxy;

static int unix_socket(const char *path, struct sockaddr_un *address) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  snprintf(address->sun_path, sizeof address->sun_path, "%s", path);
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void cut_all(proxy *self) {
  for (int i = 0; i < PAIRS; i++)
    for (int j = 0; j < 2; j++) {
      if (self->pairs[i][j] >= 0) close(self->pairs[i][j]);
      self->pairs[i][j] = -1;
    }
  self->marked = false;
  if (atomic_load(&self->mode) != PASS) atomic_store(&self->mode, PASS);
}

static void join(proxy *self) {
  struct sockaddr_un address;
  int client = accept(self->listener, NULL, NULL),
      redis = unix_socket(self->server->socket, &address);
  int at = 0;
  while (at < PAIRS && self->pairs[at][0] >= 0) at++;
  if (client < 0 || at == PAIRS ||
      connect(redis, (struct sockaddr *)&address, sizeof address) != 0) {
    close(client);
    close(redis);
    return;
  }
  self->pairs[at][0] = client;
  self->pairs[at][1] = redis;
}

static void pass_on(proxy *self, int from, int into, bool answer) {
  static char bytes[PIECE];
  ssize_t len = read(from, bytes, sizeof bytes);
  int how = atomic_load(&self->mode);
  if (len <= 0) {
    cut_all(self);
    return;
  }
  bool mark = !answer && memmem(bytes, (size_t)len, MARK, strlen(MARK));
  if (how == CUT_ANSWER && answer && self->marked) {
    cut_all(self);
    return;
  }
  self->marked = self->marked || mark;
  if (how == CUT_COMMAND && mark) len /= 2;
  for (ssize_t at = 0, n; at < len; at += n)
    if ((n = send(into, bytes + at, (size_t)(len - at), MSG_NOSIGNAL)) <= 0) break;
  if (how == CUT_COMMAND && mark) cut_all(self);
}

/* Which sides are listened to: held ones are not. */
static void *run_proxy(void *user) {
  proxy *self = user;
  while (!atomic_load(&self->ending)) {
    struct pollfd ready[2 + 2 * PAIRS] = {{.fd = self->listener, .events = POLLIN},
                                          {.fd = self->wake[0], .events = POLLIN}};
    int how = atomic_load(&self->mode);
    for (int i = 0; i < 2 * PAIRS; i++) {
      bool held = how == HOLD_ALL || (how == HOLD_ANSWERS && i % 2);
      ready[2 + i] = (struct pollfd){.fd = held ? -1 : self->pairs[i / 2][i % 2], .events = POLLIN};
    }
    poll(ready, 2 + 2 * PAIRS, -1);
    char nothing[64];
    if (ready[1].revents && read(self->wake[0], nothing, sizeof nothing) < 0) break;
    for (int i = 0; i < 2 * PAIRS; i++)
      if (ready[2 + i].revents && self->pairs[i / 2][i % 2] == ready[2 + i].fd)
        pass_on(self, ready[2 + i].fd, self->pairs[i / 2][1 - i % 2], i % 2);
    if (ready[0].revents) join(self);
  }
  return NULL;
}

static void set_mode(proxy *self, mode how) {
  atomic_store(&self->mode, how);
  assert_int_equal(write(self->wake[1], "x", 1), 1);
}

static void start_proxy(proxy *self, const redis_server *server) {
  struct sockaddr_un address;
  *self = (proxy){.server = server};
  memset(self->pairs, -1, sizeof self->pairs);
  snprintf(self->path, sizeof self->path, "%s/proxy", server->folder);
  self->listener = unix_socket(self->path, &address);
  assert_int_equal(bind(self->listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(listen(self->listener, 16), 0);
  assert_int_equal(pipe(self->wake), 0);
  assert_int_equal(pthread_create(&self->thread, NULL, run_proxy, self), 0);
}

static void end_proxy(proxy *self) {
  atomic_store(&self->ending, true);
  set_mode(self, PASS);
  pthread_join(self->thread, NULL);
  cut_all(self);
  close(self->listener);
  close(self->wake[0]);
  close(self->wake[1]);
}

/* ------------------------------------------------------------------- asking */

typedef struct answered {
  _Atomic int times;
  idem_status status;
  uint64_t version;
  bool not_done; /* it says so */
  char bytes[32];
} answered;

static void on_answer(const idem__store_answer *answer, void *user) {
  answered *self = user;
  self->status = answer->status;
  self->version = answer->version;
  self->not_done = idem__store_did_not(answer);
  size_t len = answer->len < sizeof self->bytes - 1 ? answer->len : sizeof self->bytes - 1;
  if (len) memcpy(self->bytes, answer->bytes, len);
  self->bytes[len] = 0;
  atomic_fetch_add(&self->times, 1);
}

static void begin_put(idem__store *store, const char *name, const void *bytes, size_t len,
                      answered *self) {
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = name, .name_len = strlen(name)};
  op.bytes = bytes;
  op.len = len;
  op.done = on_answer;
  op.user = self;
  *self = (answered){.times = 0};
  idem__store_run(store, &op);
}

static void wait_for(answered *self) {
  while (!atomic_load(&self->times)) sched_yield();
}

static answered try_put(idem__store *store, const char *name) {
  answered self;
  begin_put(store, name, name, strlen(name), &self);
  wait_for(&self);
  return self;
}

static idem_status put(idem__store *store, const char *name) { return try_put(store, name).status; }

static answered get(idem__store *store, const char *name) {
  answered self = {.times = 0};
  idem__store_op op = {.verb = IDEM__STORE_GET, .name = name, .name_len = strlen(name)};
  op.done = on_answer;
  op.user = &self;
  idem__store_run(store, &op);
  wait_for(&self);
  return self;
}

static idem__store *open_at(const char *socket, uint64_t wait_ms, uint64_t grace_ms) {
  char text[160], why[256] = "";
  idem__redis_url url;
  idem__store *store;
  idem__redis_times times = {.wait_ms = wait_ms, .grace_ms = grace_ms};
  snprintf(text, sizeof text, "redis+unix:%s", socket);
  assert_int_equal(idem__redis_url_parse(text, &url, why, sizeof why), IDEM_OK);
  assert_int_equal(idem__redis_open(module, &url, &times, NULL, &store, NULL, why, sizeof why),
                   IDEM_OK);
  return store;
}

#define LONG_MS 120000u /* longer than any of these tests */

/* ------------------------------------------------------------ Redis dies */

static const char *const durable[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};

static void what_was_acknowledged_survives_redis(void **state) {
  enum { COUNT = 2000 };
  static answered all[COUNT];
  redis_server server;
  char name[16];
  (void)state;
  assert_true(redis_server_start(&server, durable));
  idem__store *store = open_at(server.socket, 0, LONG_MS);
  for (int i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "n%d", i);
    begin_put(store, name, name, strlen(name), &all[i]);
  }
  wait_for(&all[100]);
  redis_server_kill(&server, SIGKILL);
  assert_true(redis_server_again(&server));
  unsigned fine = 0, unknown = 0;
  uint64_t last = 0;
  for (int i = 0; i < COUNT; i++) {
    wait_for(&all[i]);
    assert_int_equal(all[i].times, 1);
    snprintf(name, sizeof name, "n%d", i);
    answered now = get(store, name);
    if (all[i].status == IDEM_OK) {
      fine++;
      assert_int_equal(now.status, IDEM_OK);
      assert_string_equal(now.bytes, name);
      assert_true(now.version == all[i].version &&
                  now.version > last); /* in their order, none twice */
      last = now.version;
    } else {
      unknown++;
      assert_true(all[i].status == IDEM_E_SYS || all[i].status == IDEM_E_EXISTS);
    }
  }
  assert_true(fine > 100);
  print_message("%u acknowledged, %u unknown\n", fine, unknown);
  idem__store_unref(store);
  redis_server_stop(&server);
}

/* A version is not given again by a Redis that came back without what it knew. */
static void a_redis_that_forgot_gives_no_version_twice(void **state) {
  redis_server server;
  answered first, second;
  (void)state;
  assert_true(redis_server_start(&server, NULL));
  idem__store *store = open_at(server.socket, 0, LONG_MS);
  begin_put(store, "a", "one", 3, &first);
  wait_for(&first);
  redis_server_kill(&server, SIGKILL);
  assert_true(redis_server_again(&server));
  begin_put(store, "a", "two", 3, &second);
  wait_for(&second);
  assert_int_equal(second.status, IDEM_OK);
  assert_true(second.version > first.version);
  idem__store_unref(store);
  redis_server_stop(&server);
}

static void while_it_is_away_for_longer_all_are_refused_at_once(void **state) {
  redis_server server;
  (void)state;
  assert_true(redis_server_start(&server, NULL));
  idem__store *store = open_at(server.socket, 0, 1);
  assert_int_equal(put(store, "a"), IDEM_OK);
  redis_server_kill(&server, SIGTERM);
  while (!try_put(store, "b").not_done) sched_yield(); /* the first may have been on its way */
  for (int i = 0; i < 50; i++) {
    answered refused = try_put(store, "b");
    assert_int_equal(refused.status, IDEM_E_SYS);
    assert_true(refused.not_done);
  }
  assert_true(redis_server_again(&server));
  while (put(store, "c") == IDEM_E_SYS) sched_yield();
  assert_int_equal(get(store, "c").status, IDEM_OK);
  idem__store_unref(store);
  redis_server_stop(&server);
}

/* ------------------------------------------------------- connections break */

static void an_answer_that_was_cut_off_is_unknown_and_happened(void **state) {
  redis_server server;
  proxy between;
  (void)state;
  assert_true(redis_server_start(&server, NULL));
  start_proxy(&between, &server);
  idem__store *store = open_at(between.path, 0, LONG_MS);
  for (int i = 0; i < 5; i++) {
    char name[24];
    snprintf(name, sizeof name, MARK "%d", i);
    assert_int_equal(get(store, "-").status, IDEM_E_NOTFOUND);
    set_mode(&between, CUT_ANSWER);
    answered cut = try_put(store, name);
    assert_int_equal(cut.status, IDEM_E_SYS);
    assert_false(cut.not_done);
    while (get(store, name).status != IDEM_OK) sched_yield();
  }
  idem__store_unref(store);
  end_proxy(&between);
  redis_server_stop(&server);
}

static void a_command_that_was_cut_off_is_unknown_and_did_not_happen(void **state) {
  redis_server server;
  proxy between;
  (void)state;
  assert_true(redis_server_start(&server, NULL));
  start_proxy(&between, &server);
  idem__store *store = open_at(between.path, 0, LONG_MS);
  assert_int_equal(get(store, "-").status, IDEM_E_NOTFOUND);
  set_mode(&between, CUT_COMMAND);
  answered cut = try_put(store, MARK);
  assert_int_equal(cut.status, IDEM_E_SYS);
  assert_false(cut.not_done); /* who sent it cannot know */
  assert_int_equal(get(store, MARK).status, IDEM_E_NOTFOUND);
  assert_int_equal(put(store, "next"), IDEM_OK);
  idem__store_unref(store);
  end_proxy(&between);
  redis_server_stop(&server);
}

/* More than a socket holds, and nobody reads: what is behind goes with the next connection, once and in order. */
static void what_never_left_happens_with_the_next_connection(void **state) {
  enum { COUNT = 64, LARGE = 32768 };
  static char large[LARGE];
  static answered all[COUNT];
  redis_server server;
  proxy between;
  idem__redis_counts counts;
  char name[16];
  (void)state;
  assert_true(redis_server_start(&server, NULL));
  start_proxy(&between, &server);
  idem__store *store = open_at(between.path, LONG_MS, LONG_MS);
  assert_int_equal(get(store, "-").status, IDEM_E_NOTFOUND);
  set_mode(&between, HOLD_ALL);
  for (int i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "n%d", i);
    begin_put(store, name, large, sizeof large, &all[i]);
  }
  do module->counts(store, &counts);
  while (counts.waiting < COUNT);
  assert_string_equal(redis_server_ask(&server, "CLIENT KILL TYPE normal SKIPME yes"), ":1");
  assert_string_equal(redis_server_ask(&server, "CLIENT KILL TYPE pubsub"), ":1");
  set_mode(&between, PASS);
  unsigned fine = 0;
  for (int i = 0; i < COUNT; i++) {
    wait_for(&all[i]);
    fine += all[i].status == IDEM_OK;
    snprintf(name, sizeof name, "n%d", i);
    if (all[i].status == IDEM_OK) assert_int_equal(get(store, name).status, IDEM_OK);
  }
  assert_true(fine > 0);
  module->counts(store, &counts);
  assert_true(counts.unknown == COUNT - fine);
  idem__store_unref(store);
  end_proxy(&between);
  redis_server_stop(&server);
}

static void a_line_that_went_silent_is_given_up(void **state) {
  redis_server server;
  proxy between;
  (void)state;
  assert_true(redis_server_start(&server, NULL));
  start_proxy(&between, &server);
  idem__store *store = open_at(between.path, 500, LONG_MS);
  while (get(store, "-").status != IDEM_E_NOTFOUND) sched_yield();
  set_mode(&between, HOLD_ANSWERS);
  assert_int_equal(put(store, "a"), IDEM_E_SYS);
  set_mode(&between, PASS);
  while (put(store, "b") == IDEM_E_SYS) sched_yield();
  assert_int_equal(get(store, "b").status, IDEM_OK);
  idem__store_unref(store);
  end_proxy(&between);
  redis_server_stop(&server);
}

/* It goes while it is connecting, while it is away, while answers are held. */
static void a_store_ends_at_any_time(void **state) {
  redis_server server;
  proxy between;
  answered open;
  (void)state;
  assert_true(redis_server_start(&server, NULL));
  start_proxy(&between, &server);
  idem__store_unref(open_at(between.path, 0, 0));
  idem__store *store = open_at(between.path, LONG_MS, LONG_MS);
  assert_int_equal(put(store, "a"), IDEM_OK);
  set_mode(&between, HOLD_ANSWERS);
  begin_put(store, "b", "x", 1, &open);
  idem__store_unref(store);
  assert_int_equal(open.times, 1);
  assert_int_equal(open.status, IDEM_E_CLOSED);
  set_mode(&between, PASS);
  store = open_at(between.path, LONG_MS, LONG_MS);
  assert_int_equal(put(store, "c"), IDEM_OK);
  redis_server_kill(&server, SIGKILL);
  begin_put(store, "d", "x", 1, &open);
  idem__store_unref(store);
  assert_int_equal(open.times, 1);
  end_proxy(&between);
  redis_server_stop(&server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_acknowledged_survives_redis),
      cmocka_unit_test(a_redis_that_forgot_gives_no_version_twice),
      cmocka_unit_test(while_it_is_away_for_longer_all_are_refused_at_once),
      cmocka_unit_test(an_answer_that_was_cut_off_is_unknown_and_happened),
      cmocka_unit_test(a_command_that_was_cut_off_is_unknown_and_did_not_happen),
      cmocka_unit_test(what_never_left_happens_with_the_next_connection),
      cmocka_unit_test(a_line_that_went_silent_is_given_up),
      cmocka_unit_test(a_store_ends_at_any_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
