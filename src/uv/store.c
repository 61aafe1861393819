/* store.c - the store that a server is told to use: opened by its URL before anything is served, and asked once which one
 * it is (identity.h of src/mcp_server). See docs/internals/uv.md. */
#include "mcp_server/server.h"
#include "modules/sqlite/sqlite.h"
#include "uv/redis.h"
#include "uv/runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define WAIT_MS 10000u /* for a store that answers later, before serving */
#define LEAVE_MS 250u  /* ... and after it, when all the grace may be over */

/* ---------------------------------------------------------------- opening */

typedef struct opened {
  idem__store *store;
  bool only_checked; /* it is not to be opened */
  idem_log *log;
  idem__redis_carrier *carrier; /* of a Redis */
  char why[512];
} opened;

static bool read_sync(const char *text, idem__sqlite_sync *sync) {
  static const char *const names[] = {[IDEM__SQLITE_NORMAL] = "sync=normal",
                                      [IDEM__SQLITE_FULL] = "sync=full",
                                      [IDEM__SQLITE_OFF] = "sync=off"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(text, names[i]) != 0) continue;
    *sync = (idem__sqlite_sync)i;
    return true;
  }
  return false;
}

static idem_status open_file(const idem__sqlite_opts *opts, opened *self) {
  const idem__sqlite_module *module =
      idem__module_load("sqlite", IDEM__SQLITE_SYMBOL, self->why, sizeof self->why);
  if (!module) return IDEM_E_SYS;
  idem_status status = self->only_checked
                           ? module->check(opts, self->why, sizeof self->why)
                           : module->open(opts, &self->store, self->why, sizeof self->why);
  return status == IDEM_E_INVAL ? IDEM_E_SYS : status;
}

/* "sqlite:/path" or "sqlite:/path?sync=full". */
static idem_status open_sqlite(const char *rest, opened *self) {
  char path[4096];
  idem__sqlite_opts opts = {.path = path};
  size_t len = strcspn(rest, "?");
  snprintf(self->why, sizeof self->why, "a store is named sqlite:/path or sqlite:/path?sync=full");
  if (!len || len >= sizeof path) return IDEM_E_INVAL;
  if (rest[len] && !read_sync(rest + len + 1, &opts.sync)) return IDEM_E_INVAL;
  memcpy(path, rest, len);
  path[len] = 0;
  return open_file(&opts, self);
}

/* ------------------------------------------------------------- asking once */

/* Two have it: who waits, and the store, which may answer when nobody waits any more. */
typedef struct question {
  pthread_mutex_t lock;
  pthread_cond_t answered;
  unsigned holders;
  bool there;
  idem_status status;
  uint8_t key[IDEM__STATE_KEY_BYTES];
} question;

static void let_go(question *self) {
  unsigned left = --self->holders;
  pthread_mutex_unlock(&self->lock);
  if (left) return;
  pthread_mutex_destroy(&self->lock);
  pthread_cond_destroy(&self->answered);
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__free(&alloc, self);
}

static void on_answer(const idem__store_answer *answer, void *user) {
  question *self = user;
  pthread_mutex_lock(&self->lock);
  self->there = true;
  self->status = answer->status;
  if (answer->len == sizeof self->key) memcpy(self->key, answer->bytes, sizeof self->key);
  pthread_cond_signal(&self->answered);
  let_go(self);
}

static question *new_question(void) {
  idem_alloc alloc =
      idem__alloc_or_default(NULL); /* the store's thread may be the one to free it */
  question *self = idem__calloc(&alloc, sizeof *self);
  if (!self) return NULL;
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->answered, NULL);
  self->holders = 2;
  self->status = IDEM_E_TIMEOUT;
  return self;
}

static idem_status ask(idem__store *store, idem__store_op op, unsigned wait_ms, uint8_t *key) {
  question *self = new_question();
  if (!self) return IDEM_E_NOMEM;
  op.done = on_answer;
  op.user = self;
  idem__store_run(store, &op);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += wait_ms / 1000;
  until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  pthread_mutex_lock(&self->lock);
  while (!self->there && pthread_cond_timedwait(&self->answered, &self->lock, &until) == 0)
    continue;
  idem_status status = self->status;
  if (key && status == IDEM_OK) memcpy(key, self->key, sizeof self->key);
  let_go(self);
  return status;
}

/* Whoever comes first makes it, and the marks in its parts: who comes later looks for them. */
static idem_status share_identity(idem_server *server, idem__store *store, bool *made) {
  uint8_t secret[IDEM__STATE_KEY_BYTES];
  if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret) return IDEM_E_SYS;
  idem__store_op op = idem__identity_op(IDEM__STORE_PUT);
  op.bytes = secret;
  op.len = sizeof secret;
  idem_status status = ask(store, op, WAIT_MS, NULL);
  op.verb = IDEM__STORE_GET;
  *made = status == IDEM_OK;
  if (status == IDEM_E_EXISTS) status = ask(store, op, WAIT_MS, secret);
  if (status == IDEM_OK) idem__identity_share(server, secret);
  return status;
}

/* ------------------------------------------------------------------- Redis */

/* How many parts it has is written in the first: whoever is the first of all to come writes it. */
static idem_status count_parts(opened *self, unsigned *parts) {
  idem_status status = ask(self->store, idem__identity_op(IDEM__STORE_GET), WAIT_MS, NULL);
  *parts = idem__redis_parts(self->carrier);
  if (*parts) return IDEM_OK;
  idem__redis_why(self->carrier, self->why, sizeof self->why);
  return status == IDEM_OK || status == IDEM_E_NOTFOUND ? IDEM_E_SYS : status;
}

static idem_status open_all(const idem__redis_module *module, const idem__redis_url *url,
                            opened *self) {
  unsigned parts;
  idem__redis_times first = {.first_alone = true};
  idem_status status = idem__redis_open(module, url, &first, self->log, &self->store,
                                        &self->carrier, self->why, sizeof self->why);
  if (status != IDEM_OK) return status;
  status = count_parts(self, &parts);
  if (status != IDEM_OK)
    idem__store_unref(self->store);
  else
    status = idem__redis_complete(self->carrier, url, NULL, parts, &self->store);
  return status;
}

static idem_status open_redis(const char *text, opened *self) {
  idem__redis_url url;
  idem_status status = idem__redis_url_parse(text, &url, self->why, sizeof self->why);
  if (status != IDEM_OK) return status;
  const idem__redis_module *module =
      idem__module_load("redis", IDEM__REDIS_SYMBOL, self->why, sizeof self->why);
  if (url.password[0]) idem_log_add_secret(self->log, url.password, strlen(url.password));
  if (!module)
    status = IDEM_E_SYS;
  else if (self->only_checked)
    status = idem__redis_check(module, &url, self->why, sizeof self->why);
  else
    status = open_all(module, &url, self);
  explicit_bzero(url.password, sizeof url.password);
  return status;
}

/* ----------------------------------------------------------------- joining */

/* Whoever finds a key or a task of this process looks whether it lives: its record is there before anything is served. */
static idem_status await_node(idem_server *server) {
  idem__store_op op;
  if (!idem__node_leave_op(server, &op)) return IDEM_OK;
  op.verb = IDEM__STORE_GET;
  return ask(server->store, op, WAIT_MS, NULL);
}

static bool see_none(const idem__store_item *item, void *user) {
  (void)item, (void)user;
  return false;
}

/* Of one that has several every part is asked something, and has answered or failed when this returns: most of them must be there. */
static idem_status await_parts(idem__store *store) {
  idem__store_op op = {.verb = IDEM__STORE_LIST, .space = IDEM__STORE_NODES, .limit = 1};
  op.each = see_none;
  if (!store->kind->part) return IDEM_OK;
  idem_status status = ask(store, op, WAIT_MS, NULL);
  return store->kind->reaches(store) ? IDEM_OK : status == IDEM_OK ? IDEM_E_SYS : status;
}

static idem_status use(idem_server *server, opened *self) {
  bool made = false;
  idem_status status = share_identity(server, self->store, &made);
  if (status == IDEM_OK) status = idem__server_use_store(server, self->store);
  if (status == IDEM_OK) status = await_node(server);
  if (status == IDEM_OK) status = await_parts(self->store);
  if (status == IDEM_OK && made) idem__identity_mark_all(server);
  if (status != IDEM_OK)
    snprintf(self->why, sizeof self->why, "%s",
             status == IDEM_E_LIMIT      ? "its disk is full"
             : status == IDEM_E_NOTFOUND ? "it has not kept what it was given first"
                                         : "it does not answer");
  if (status != IDEM_OK && self->carrier)
    idem__redis_why(self->carrier, self->why, sizeof self->why);
  idem__store_unref(self->store);
  return status;
}

static idem_status open_store(const char *url, opened *self) {
  snprintf(self->why, sizeof self->why, "stores are named memory:, sqlite:/path and redis://host");
  if (strcmp(url, "memory:") == 0) return IDEM_OK;
  if (strncmp(url, "sqlite:", 7) == 0) return open_sqlite(url + 7, self);
  return strncmp(url, "redis", 5) == 0 ? open_redis(url, self) : IDEM_E_INVAL;
}

static idem_status open_and_use(idem_server *server, const char *url, opened *self) {
  idem_status status = open_store(url, self);
  return status == IDEM_OK && self->store ? use(server, self) : status;
}

/* How much of its name is shown beside why it cannot be used. What is no URL of a store may have a password anywhere. */
static int shown_of(const char *url, idem_status status) {
  return status == IDEM_E_INVAL ? 0 : (int)strcspn(url, "?");
}

idem_status idem_check_store(const char *store, char *why, size_t size) {
  if (!store) store = "memory:";
  opened self = {.only_checked = true};
  idem_status status = open_store(store, &self);
  int shown = shown_of(store, status);
  if (status == IDEM_OK) self.why[0] = 0;
  snprintf(why, size, "%.*s%s%s", status == IDEM_OK ? 0 : shown, store,
           status != IDEM_OK && shown ? ": " : "", self.why);
  return status;
}

/* The operator's own words, so paths stand whole. */
static void say(const idem_serve_opts *opts, idem_log_level level, const char *message,
                const char *detail) {
  idem_log_write(opts->log, &(idem_log_record){.level = level,
                                               .message = message,
                                               .detail = detail,
                                               .detail_len = strlen(detail),
                                               .plain = true});
}

/* Of a Redis its connection says so. */
static void say_open(const idem_serve_opts *opts) {
  if (strncmp(opts->store, "redis", 5) == 0) return;
  bool memory = strcmp(opts->store, "memory:") == 0;
  say(opts, IDEM_LOG_INFO, "the store is open",
      memory ? "memory: what is in it goes with this process" : opts->store);
}

static void say_trouble(const idem_serve_opts *opts, idem_status status, const char *why) {
  char detail[5000];
  int shown = opts->server ? shown_of(opts->store, status) : 0;
  snprintf(detail, sizeof detail, "%.*s%s%s", shown, opts->store, shown ? ": " : "", why);
  say(opts, IDEM_LOG_ERROR, "the store cannot be used", detail);
}

IDEM__EARLY idem_status idem__store_join(const idem_serve_opts *opts) {
  opened self = {.log = opts->log};
  if (!opts->store) return IDEM_OK;
  const char *name = opts->server ? idem__server_store_name(opts->server) : NULL;
  if (name && strcmp(name, opts->store) == 0) return IDEM_OK;
  idem_status status = IDEM_E_INVAL;
  if (!opts->server || name)
    snprintf(self.why, sizeof self.why, "%s",
             name ? "the server has another store" : "only MCP servers have one");
  else
    status = open_and_use(opts->server, opts->store, &self);
  if (status == IDEM_OK) status = idem__server_name_store(opts->server, opts->store);
  if (status == IDEM_OK)
    say_open(opts);
  else
    say_trouble(opts, status, self.why);
  return status;
}

/* So that the others need not wait for its lease to end: what is meant for it is refused at once. */
void idem__store_leave(const idem_serve_opts *opts) {
  idem__store_op op;
  const char *name = opts->server ? idem__server_store_name(opts->server) : NULL;
  if (!name || opts->server->store->kind->immediate) return;
  if (idem__node_leave_op(opts->server, &op)) (void)ask(opts->server->store, op, LEAVE_MS, NULL);
}
