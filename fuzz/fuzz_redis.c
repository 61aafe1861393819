/* fuzz_redis.c - any bytes as the answers of a Redis, on both connections, in pieces: every operation ends exactly once, and
 * nothing is believed that could not be. The first byte says whether the first words were answered as they should be. */
#include "modules/redis/redis.h"

#include <stdlib.h>
#include <string.h>

#define OPERATIONS 10

extern const idem__redis_module idem__redis_module_table;

static void nothing(void *carrier) { (void)carrier; }

static void on_done(const idem__store_answer *answer, void *user) {
  ++*(unsigned *)user;
  if (answer->len && !answer->bytes) abort();
}

static bool on_item(const idem__store_item *item, void *user) {
  (void)user;
  if (item->len && !item->bytes) abort();
  return true;
}

static void hear(const idem__store_change *change, void *user) {
  (void)user;
  if (!change->name_len || change->name_len > IDEM__STORE_NAME_MAX) abort();
}

static void ask_all(idem__store *store, unsigned *ended) {
  for (unsigned i = 0; i < OPERATIONS; i++) {
    idem__store_op op = {.verb = (idem__store_verb)(i % (IDEM__STORE_TELL + 1))};
    op.name = "a";
    op.name_len = 1;
    op.each = on_item;
    op.done = on_done;
    op.user = &ended[i];
    idem__store_run(store, &op);
  }
}

static void send_all(const idem__redis_module *module, idem__store *store) {
  const char *bytes;
  for (int i = 0; i < IDEM__REDIS_LINES; i++)
    for (size_t len; (len = module->output(store, (idem__redis_line)i, 1, &bytes));)
      module->sent(store, (idem__redis_line)i, len);
}

static void greet(const idem__redis_module *module, idem__store *store) {
  static const char none[] = "-ERR no cluster\r\n";
  static const char sha[] = "$40\r\n0123456789abcdef0123456789abcdef01234567\r\n";
  static const char one_part[] =
      "*3\r\n:0\r\n$1\r\n0\r\n$1\r\n1\r\n"; /* to a connection's first question */
  static const char listening[] = "*3\r\n$9\r\nsubscribe\r\n$11\r\n{idem}:news\r\n:1\r\n";
  module->feed(store, IDEM__REDIS_COMMANDS, none, sizeof none - 1, 1);
  for (int i = 0; i < 11; i++) module->feed(store, IDEM__REDIS_COMMANDS, sha, sizeof sha - 1, 1);
  send_all(module, store);
  module->feed(store, IDEM__REDIS_COMMANDS, one_part, sizeof one_part - 1, 1);
  module->feed(store, IDEM__REDIS_NEWS, listening, sizeof listening - 1, 1);
  if (!module->ready(store)) abort();
}

/* Pieces: a byte whose lowest bit is the connection and whose others are the length, then so many. */
static void feed_all(const idem__redis_module *module, idem__store *store, const uint8_t *data,
                     size_t size) {
  bool open[IDEM__REDIS_LINES] = {true, true};
  while (size > 1) {
    idem__redis_line line = (idem__redis_line)(*data & 1);
    size_t len = *data >> 1;
    data++, size--;
    if (len > size) len = size;
    if (open[line] && !module->feed(store, line, (const char *)data, len, 1)) {
      module->end(store, line, 1);
      open[line] = false;
    }
    send_all(module, store);
    data += len, size -= len;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const idem__redis_module *module = &idem__redis_module_table;
  idem__redis_opts opts = {.wake = nothing, .stop = nothing};
  idem__store *store;
  idem__store_watcher *watcher;
  unsigned ended[OPERATIONS] = {0};
  if (!size || module->open(&opts, &store) != IDEM_OK) return 0;
  if (idem__store_watch(store, IDEM__STORE_SESSIONS, hear, NULL, &watcher) != IDEM_OK) abort();
  for (int i = 0; i < IDEM__REDIS_LINES; i++) module->begin(store, (idem__redis_line)i, 1);
  send_all(module, store);
  if (*data & 1) greet(module, store);
  ask_all(store, ended);
  send_all(module, store);
  feed_all(module, store, data + 1, size - 1);
  idem__store_unwatch(store, watcher);
  idem__store_unref(store);
  for (int i = 0; i < OPERATIONS; i++)
    if (ended[i] != 1) abort();
  return 0;
}
