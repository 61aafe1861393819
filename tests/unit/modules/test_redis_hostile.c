/* test_redis_hostile.c - whatever comes instead of Redis's answers: lengths that cannot be, types that were not asked for,
 * arrays without end, anything cut short. The connection is given up, and every operation ends once. No socket is
 * needed: the module does no I/O. */
#include "modules/redis/redis.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

extern const idem__redis_module idem__redis_module_table;
static const idem__redis_module *const module = &idem__redis_module_table;

static void nothing(void *carrier) { (void)carrier; }

#define SHA "$40\r\n0123456789abcdef0123456789abcdef01234567\r\n"
#define NO_CLUSTER "-ERR This instance has cluster support disabled\r\n"
#define SHAS NO_CLUSTER SHA SHA SHA SHA SHA SHA SHA SHA SHA SHA SHA
#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$11\r\n{idem}:news\r\n:1\r\n"

static idem__store *open_one(size_t queued_count) {
  idem__store *store;
  idem__redis_opts opts = {.wake = nothing, .stop = nothing, .queued_count = queued_count};
  assert_int_equal(module->open(&opts, &store), IDEM_OK);
  return store;
}

static bool feed(idem__store *store, idem__redis_line line, const char *text, size_t len) {
  return module->feed(store, line, text, len, 1000);
}

static void send_all(idem__store *store, idem__redis_line line) {
  const char *bytes;
  for (size_t len; (len = module->output(store, line, 1000, &bytes));)
    module->sent(store, line, len);
}

/* A store of one part, as the first question of a connection finds it. */
static void join(idem__store *store, uint64_t now_ms) {
  static const char one_part[] = "*3\r\n:0\r\n$1\r\n0\r\n$1\r\n1\r\n";
  const char *bytes;
  size_t len = module->output(store, IDEM__REDIS_COMMANDS, now_ms, &bytes);
  module->sent(store, IDEM__REDIS_COMMANDS, len);
  assert_false(module->joined(store));
  assert_true(module->feed(store, IDEM__REDIS_COMMANDS, one_part, strlen(one_part), now_ms));
  assert_true(module->joined(store));
}

static idem__store *open_ready(void) {
  idem__store *store = open_one(0);
  for (int i = 0; i < IDEM__REDIS_LINES; i++) {
    module->begin(store, (idem__redis_line)i, 1000);
    send_all(store, (idem__redis_line)i);
  }
  assert_true(feed(store, IDEM__REDIS_COMMANDS, SHAS, strlen(SHAS)));
  join(store, 1000);
  assert_false(module->ready(store));
  assert_true(feed(store, IDEM__REDIS_NEWS, SUBSCRIBED, strlen(SUBSCRIBED)));
  assert_true(module->ready(store));
  return store;
}

typedef struct ended {
  unsigned times, items;
  idem__store_answer answer;
} ended;

static void on_done(const idem__store_answer *answer, void *user) {
  ended *self = user;
  self->times++;
  self->answer = *answer;
}

static bool on_item(const idem__store_item *item, void *user) {
  ended *self = user;
  if (item->len) assert_non_null(item->bytes);
  self->items++;
  return true;
}

static void ask(idem__store *store, idem__store_verb verb, ended *self) {
  idem__store_op op = {
      .verb = verb, .name = "a", .name_len = 1, .ttl_ms = 86400000, .each = on_item};
  op.done = on_done;
  op.user = self;
  idem__store_run(store, &op);
}

/* What is asked for by a command of Redis's own has another shape, and what is not of that is believed as little. */
static void a_peek_believes_no_answer_of_another_shape(void **state) {
  static const char *const wrong[] = {
      "+OK\r\n",
      "*1\r\n$1\r\n5\r\n",
      "*2\r\n:5\r\n:0\r\n",
      "*2\r\n$1\r\nx\r\n$1\r\n0\r\n",
      "*2\r\n$1\r\n5\r\n$-1\r\n",
      "*2\r\n$1\r\n5\r\n$2\r\n-1\r\n",
      "*3\r\n:0\r\n$1\r\n5\r\n$1\r\n0\r\n",
  };
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    idem__store *store = open_ready();
    ended one = {.times = 0};
    ask(store, IDEM__STORE_PEEK, &one);
    send_all(store, IDEM__REDIS_COMMANDS);
    if (feed(store, IDEM__REDIS_COMMANDS, wrong[i], strlen(wrong[i])))
      fail_msg("it believed %s", wrong[i]);
    module->end(store, IDEM__REDIS_COMMANDS, 1000);
    assert_int_equal(one.answer.status, IDEM_E_SYS);
    idem__store_unref(store);
  }
}

/* Where Redis has not told the time, nobody says that there is enough of it. */
static void a_peek_without_a_clock_judges_nothing(void **state) {
  static const char there[] = "*2\r\n$1\r\n5\r\n$15\r\n999999999999999\r\n",
                    gone[] = "*2\r\n$-1\r\n$-1\r\n";
  (void)state;
  idem__store *store = open_ready();
  ended one = {.times = 0}, other = {.times = 0};
  ask(store, IDEM__STORE_PEEK, &one);
  ask(store, IDEM__STORE_PEEK, &other);
  send_all(store, IDEM__REDIS_COMMANDS);
  assert_true(feed(store, IDEM__REDIS_COMMANDS, there, strlen(there)));
  assert_true(feed(store, IDEM__REDIS_COMMANDS, gone, strlen(gone)));
  assert_int_equal(one.answer.status, IDEM_OK);
  assert_true(one.answer.version == 5 && one.answer.number == 0);
  assert_int_equal(other.answer.status, IDEM_E_NOTFOUND);
  idem__store_unref(store);
}

/* Every way to say it wrongly, for every verb: whole, and byte by byte. */
static void an_answer_that_is_none_breaks_the_connection(void **state) {
  static const char *const wrong[] = {
      "+OK\r\n",
      ":1\r\n",
      "$3\r\nabc\r\n",
      "$-1\r\n",
      "*-1\r\n",
      "*0\r\n",
      "*3\r\n:0\r\n$1\r\n1\r\n:5\r\n",
      "*3\r\n:9\r\n$1\r\n1\r\n$1\r\n0\r\n",
      "*3\r\n:-1\r\n$1\r\n1\r\n$1\r\n0\r\n",
      "*3\r\n:0\r\n$2\r\n-1\r\n$1\r\n0\r\n",
      "*3\r\n:0\r\n$20\r\n99999999999999999999\r\n$1\r\n0\r\n",
      "*3\r\n:0\r\n$0\r\n\r\n$1\r\n0\r\n",
      "*3\r\n*1\r\n*1\r\n*1\r\n:1\r\n$1\r\n1\r\n$1\r\n0\r\n",
      "*1025\r\n",
      "*2147483647\r\n",
      "*9223372036854775807\r\n",
      "$-9\r\n",
      "$99999999999999999999\r\n",
      "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
      "?what\r\n",
      "HTTP/1.1 400 Bad Request\r\n\r\n",
      "-READONLY You can't write against a read only replica.\r\n",
  };
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    for (int whole = 0; whole < 2; whole++) {
      idem__store *store = open_ready();
      ended one = {.times = 0}, other = {.times = 0};
      ask(store, IDEM__STORE_GET, &one);
      ask(store, IDEM__STORE_PUT, &other);
      send_all(store, IDEM__REDIS_COMMANDS);
      size_t len = strlen(wrong[i]), step = whole ? len : 1;
      bool fine = true;
      for (size_t at = 0; at < len && fine; at += step)
        fine = feed(store, IDEM__REDIS_COMMANDS, wrong[i] + at, step);
      if (fine) fail_msg("it believed %s", wrong[i]);
      assert_true(*module->fault(store) != 0);
      module->end(store, IDEM__REDIS_COMMANDS, 1000);
      assert_int_equal(one.times, 1);
      assert_int_equal(one.answer.status, IDEM_E_SYS);
      assert_int_equal(other.times, 1);
      assert_int_equal(other.answer.status, IDEM_E_SYS);
      idem__store_unref(store);
    }
}

/* Pages whose numbers do not go up would be asked for without end. */
static void a_page_that_does_not_get_on_is_not_asked_for_again(void **state) {
  static const char *const wrong[] = {
      "*5\r\n:0\r\n$1\r\n0\r\n$1\r\n9\r\n:1\r\n*0\r\n",
      "*5\r\n:0\r\n$1\r\n0\r\n$1\r\n9\r\n:1\r\n*2\r\n$1\r\n0\r\n$1\r\nx\r\n",
      "*5\r\n:0\r\n$1\r\n0\r\n$1\r\n9\r\n:0\r\n*4\r\n$1\r\n2\r\n$1\r\nx\r\n$1\r\n2\r\n$1\r\ny\r\n",
      "*5\r\n:0\r\n$1\r\n0\r\n$1\r\n9\r\n:0\r\n*1\r\n$1\r\n2\r\n",
      "*5\r\n:0\r\n$1\r\n0\r\n$1\r\n9\r\n:0\r\n*2\r\n:2\r\n$1\r\nx\r\n",
      "*5\r\n:0\r\n$1\r\n0\r\n$1\r\n9\r\n:0\r\n$1\r\nx\r\n",
      "*4\r\n:0\r\n$1\r\n0\r\n$1\r\n9\r\n:0\r\n",
  };
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    idem__store *store = open_ready();
    ended one = {.times = 0};
    ask(store, IDEM__STORE_READ, &one);
    send_all(store, IDEM__REDIS_COMMANDS);
    if (feed(store, IDEM__REDIS_COMMANDS, wrong[i], strlen(wrong[i])))
      fail_msg("it believed %s", wrong[i]);
    module->end(store, IDEM__REDIS_COMMANDS, 1000);
    assert_int_equal(one.times, 1);
    assert_int_equal(one.answer.status, IDEM_E_SYS);
    idem__store_unref(store);
  }
}

static void an_answer_that_nobody_waits_for_breaks_the_connection(void **state) {
  static const char answer[] = "*3\r\n:0\r\n$1\r\n1\r\n$1\r\n0\r\n";
  (void)state;
  idem__store *store = open_ready();
  assert_false(feed(store, IDEM__REDIS_COMMANDS, answer, strlen(answer)));
  idem__store_unref(store);
}

/* An error ends its own operation and no other. */
static void an_error_is_not_the_connections(void **state) {
  static const char answers[] = "-WRONGTYPE Operation against a key\r\n-OOM command not allowed\r\n"
                                "*4\r\n:0\r\n$1\r\n7\r\n$1\r\n0\r\n$2\r\nok\r\n";
  (void)state;
  idem__store *store = open_ready();
  ended all[3] = {{.times = 0}};
  for (int i = 0; i < 3; i++) ask(store, IDEM__STORE_GET, &all[i]);
  send_all(store, IDEM__REDIS_COMMANDS);
  assert_true(feed(store, IDEM__REDIS_COMMANDS, answers, strlen(answers)));
  assert_int_equal(all[0].answer.status, IDEM_E_SYS);
  assert_int_equal(all[1].answer.status, IDEM_E_LIMIT);
  assert_int_equal(all[2].answer.status, IDEM_OK);
  assert_true(all[2].answer.version == 7);
  idem__store_unref(store);
}

/* Where to go is text of another machine's. */
static void a_cluster_that_leads_nowhere_is_not_followed(void **state) {
  static const char *const wrong[] = {
      "MOVED",         "MOVED 1",         "MOVED 1 ",           "MOVED 1 host",
      "MOVED 1 host:", "MOVED 1 host:0",  "MOVED 1 host:65536", "MOVED 1 host:123456",
      "MOVED 1 :1",    "MOVED 1 ho/st:1", "MOVED 1 host:1x"};
  char answer[64], host[256], port[8];
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    idem__store *store = open_ready();
    ended one = {.times = 0};
    ask(store, IDEM__STORE_GET, &one);
    send_all(store, IDEM__REDIS_COMMANDS);
    int len = snprintf(answer, sizeof answer, "-%s\r\n", wrong[i]);
    assert_true(feed(store, IDEM__REDIS_COMMANDS, answer, (size_t)len));
    assert_int_equal(one.answer.status, IDEM_E_SYS);
    assert_false(
        module->place(store, IDEM__REDIS_COMMANDS, 1, host, sizeof host, port, sizeof port));
    idem__store_unref(store);
  }
}

/* It did not happen there: it is the next at the other node, before what came after it. */
static void what_has_moved_is_asked_for_elsewhere(void **state) {
  static const char moved[] = "-MOVED 1 ::1:7001\r\n",
                    made[] = "*3\r\n:0\r\n$1\r\n5\r\n$1\r\n0\r\n";
  const char *bytes;
  char host[256], port[8];
  (void)state;
  idem__store *store = open_ready();
  ended one = {.times = 0}, other = {.times = 0};
  ask(store, IDEM__STORE_PUT, &one);
  ask(store, IDEM__STORE_TOUCH, &other);
  size_t len = module->output(store, IDEM__REDIS_COMMANDS, 1000, &bytes);
  module->sent(store, IDEM__REDIS_COMMANDS, len);
  assert_true(feed(store, IDEM__REDIS_COMMANDS, moved, strlen(moved)));
  assert_false(feed(store, IDEM__REDIS_COMMANDS, moved, strlen(moved))); /* none is owed: it goes */
  module->end(store, IDEM__REDIS_COMMANDS, 1000);
  assert_int_equal(one.times + other.times, 0);
  assert_true(module->place(store, IDEM__REDIS_COMMANDS, 1, host, sizeof host, port, sizeof port));
  assert_string_equal(host, "::1");
  assert_string_equal(port, "7001");
  module->begin(store, IDEM__REDIS_COMMANDS, 1000);
  send_all(store, IDEM__REDIS_COMMANDS);
  assert_true(feed(store, IDEM__REDIS_COMMANDS, SHAS, strlen(SHAS)));
  join(store, 1000);
  assert_int_equal(module->output(store, IDEM__REDIS_COMMANDS, 1000, &bytes), len);
  module->sent(store, IDEM__REDIS_COMMANDS, len);
  assert_true(feed(store, IDEM__REDIS_COMMANDS, made, strlen(made)));
  assert_true(one.times == 1 && one.answer.status == IDEM_OK && other.times == 0);
  idem__store_unref(store);
  assert_int_equal(other.answer.status, IDEM_E_CLOSED);
}

static void what_redis_says_is_shown_as_far_as_it_can_be_printed(void **state) {
  static const char answer[] = "-ERR \x1b[31mred\x07 \xff\r\n";
  (void)state;
  idem__store *store = open_ready();
  ended one = {.times = 0};
  ask(store, IDEM__STORE_GET, &one);
  send_all(store, IDEM__REDIS_COMMANDS);
  assert_true(feed(store, IDEM__REDIS_COMMANDS, answer, strlen(answer)));
  assert_string_equal(module->fault(store), "Redis refused an operation: ERR ?[31mred? ?");
  idem__store_unref(store);
}

/* ------------------------------------------------------------------- first words */

static void first_words_that_are_not_answered_as_asked_let_nobody_in(void **state) {
  static const char *const wrong[] = {"+OK\r\n", "-NOAUTH Authentication required.\r\n",
                                      "$3\r\nabc\r\n",
                                      "$40\r\n0123456789ABCDEF0123456789abcdef01234567\r\n"};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    idem__store *store = open_one(0);
    ended one = {.times = 0};
    ask(store, IDEM__STORE_GET, &one);
    module->begin(store, IDEM__REDIS_COMMANDS, 1000);
    send_all(store, IDEM__REDIS_COMMANDS);
    assert_true(feed(store, IDEM__REDIS_COMMANDS, NO_CLUSTER, strlen(NO_CLUSTER)));
    assert_false(feed(store, IDEM__REDIS_COMMANDS, wrong[i], strlen(wrong[i])));
    module->end(store, IDEM__REDIS_COMMANDS, 1000);
    assert_int_equal(one.times, 1); /* it never was there: nobody waits for it */
    assert_int_equal(one.answer.status, IDEM_E_SYS);
    idem__store_unref(store);
  }
}

static idem__store *open_greeted(unsigned parts, ended *one) {
  idem__store *store;
  idem__redis_opts opts = {.wake = nothing, .stop = nothing, .parts = parts};
  assert_int_equal(module->open(&opts, &store), IDEM_OK);
  ask(store, IDEM__STORE_GET, one);
  module->begin(store, IDEM__REDIS_COMMANDS, 1000);
  send_all(store, IDEM__REDIS_COMMANDS);
  assert_true(feed(store, IDEM__REDIS_COMMANDS, SHAS, strlen(SHAS)));
  send_all(store, IDEM__REDIS_COMMANDS);
  return store;
}

/* Whoever asks whether the store is here hears of another one, or of none: nothing else is asked. */
static void a_store_that_is_another_lets_nobody_in(void **state) {
  static const struct {
    unsigned parts;
    const char *answer, *fault;
  } wrong[] = {{1, "*3\r\n:0\r\n$1\r\n0\r\n$2\r\n12\r\n", "parts=12"},
               {12, "*3\r\n:0\r\n$1\r\n0\r\n$1\r\n1\r\n", "parts=1"},
               {0, "*3\r\n:0\r\n$1\r\n0\r\n$1\r\n0\r\n", "parts=0"},
               {0, "*3\r\n:0\r\n$1\r\n0\r\n$2\r\n65\r\n", "parts=65"},
               {0, "-NOPERM no permissions\r\n", "NOPERM"},
               {0, "*3\r\n:1\r\n$1\r\n0\r\n$1\r\n1\r\n", ""}};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ended one = {.times = 0};
    idem__store *store = open_greeted(wrong[i].parts, &one);
    assert_int_equal(one.times, 0);
    assert_false(feed(store, IDEM__REDIS_COMMANDS, wrong[i].answer, strlen(wrong[i].answer)));
    assert_non_null(strstr(module->fault(store), wrong[i].fault));
    module->end(store, IDEM__REDIS_COMMANDS, 1000);
    assert_true(one.times == 1 && one.answer.status == IDEM_E_SYS);
    idem__store_unref(store);
  }
}

/* It is not refused for having asked the wrong node first. */
static void a_store_that_is_elsewhere_is_looked_for_there(void **state) {
  static const char moved[] = "-MOVED 1 node:7001\r\n";
  char host[256], port[8];
  ended one = {.times = 0};
  (void)state;
  idem__store *store = open_greeted(1, &one);
  assert_false(feed(store, IDEM__REDIS_COMMANDS, moved, strlen(moved)));
  assert_string_equal(module->fault(store), "the cluster has the store at: node:7001");
  module->end(store, IDEM__REDIS_COMMANDS, 1000);
  assert_int_equal(one.times, 0);
  assert_true(module->place(store, IDEM__REDIS_COMMANDS, 1, host, sizeof host, port, sizeof port));
  assert_string_equal(host, "node");
  module->end(store, IDEM__REDIS_COMMANDS, 1000); /* nobody is there */
  assert_true(one.times == 1 && one.answer.status == IDEM_E_SYS);
  idem__store_unref(store);
}

static void a_cluster_without_a_node_for_the_store_is_not_waited_for(void **state) {
  static const char down[] = "-CLUSTERDOWN Hash slot not served\r\n";
  uint64_t next, now = 1000;
  ended one = {.times = 0};
  (void)state;
  idem__store *store = open_greeted(0, &one);
  while (now < 6000) {
    assert_true(module->feed(store, IDEM__REDIS_COMMANDS, down, strlen(down), now));
    assert_true(module->tick(store, IDEM__REDIS_COMMANDS, now, &next));
    assert_true(next > now && next <= now + 50);
    const char *bytes;
    now = next;
    size_t len = module->output(store, IDEM__REDIS_COMMANDS, now, &bytes);
    assert_true(len > 0);
    module->sent(store, IDEM__REDIS_COMMANDS, len);
  }
  assert_false(module->tick(store, IDEM__REDIS_COMMANDS, now, &next));
  assert_non_null(strstr(module->fault(store), "no node"));
  module->end(store, IDEM__REDIS_COMMANDS, now);
  assert_true(one.times == 1 && one.answer.status == IDEM_E_SYS);
  idem__store_unref(store);
}

/* ---------------------------------------------------------------------------- news */

static void whoever_tells_no_more_news_is_left_with_the_reason(void **state) {
  static const char *const said[][2] = {{"-MOVED 1 node:7001\r\n", "MOVED 1 node:7001"},
                                        {"+OK\r\n", "not asked"},
                                        {"*2\r\n$1\r\na\r\n$1\r\nb\r\n", "not asked"}};
  (void)state;
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    idem__store *store = open_ready();
    assert_false(feed(store, IDEM__REDIS_NEWS, said[i][0], strlen(said[i][0])));
    assert_non_null(strstr(module->fault(store), said[i][1]));
    idem__store_unref(store);
  }
}

static void count_news(const idem__store_change *change, void *user) {
  assert_true(change->name_len > 0);
  ++*(unsigned *)user;
}

static void publish(idem__store *store, const char *text) {
  char message[256];
  int len =
      snprintf(message, sizeof message,
               "*3\r\n$7\r\nmessage\r\n$11\r\n{idem}:news\r\n$%zu\r\n%s\r\n", strlen(text), text);
  assert_true(feed(store, IDEM__REDIS_NEWS, message, (size_t)len));
}

static void news_that_nobody_of_ours_wrote_are_passed_over(void **state) {
  static const char *const odd[] = {
      "",        "0",       "0 0",      "0 0 1",   "0 0 1 ",
      "9 0 1 a", "0 9 1 a", "-1 0 1 a", "x y z w", "0 0 99999999999999999999 a",
      " 0 0 1 a"};
  unsigned heard = 0;
  idem__store_watcher *watcher;
  (void)state;
  idem__store *store = open_ready();
  assert_int_equal(idem__store_watch(store, IDEM__STORE_SESSIONS, count_news, &heard, &watcher),
                   IDEM_OK);
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) publish(store, odd[i]);
  assert_int_equal(heard, 0);
  publish(store, "0 0 1 a");
  assert_int_equal(heard, 1);
  idem__store_unwatch(store, watcher);
  assert_false(feed(store, IDEM__REDIS_NEWS, "+OK\r\n", 5));
  idem__store_unref(store);
}

/* -------------------------------------------------------------------------- bounds */

static void a_queue_that_is_full_refuses(void **state) {
  (void)state;
  idem__store *store = open_one(2);
  ended all[3] = {{.times = 0}};
  for (int i = 0; i < 3; i++) ask(store, IDEM__STORE_GET, &all[i]);
  assert_int_equal(all[0].times + all[1].times, 0);
  assert_int_equal(all[2].times, 1);
  assert_int_equal(all[2].answer.status, IDEM_E_LIMIT);
  idem__store_unref(store);
  assert_int_equal(all[0].answer.status, IDEM_E_CLOSED);
  assert_int_equal(all[1].answer.status, IDEM_E_CLOSED);
}

/* Not sent to its last byte: it did not happen, and goes with the next connection before what came after it. */
static void what_was_not_sent_whole_goes_with_the_next_connection(void **state) {
  static const char made[] = "*3\r\n:0\r\n$1\r\n5\r\n$1\r\n0\r\n";
  const char *bytes;
  (void)state;
  idem__store *store = open_ready();
  ended sent = {.times = 0}, half = {.times = 0};
  ask(store, IDEM__STORE_GET, &sent);
  send_all(store, IDEM__REDIS_COMMANDS);
  ask(store, IDEM__STORE_PUT, &half);
  size_t len = module->output(store, IDEM__REDIS_COMMANDS, 1000, &bytes);
  module->sent(store, IDEM__REDIS_COMMANDS, len - 1);
  module->end(store, IDEM__REDIS_COMMANDS, 1000);
  assert_int_equal(sent.times, 1);
  assert_int_equal(sent.answer.status, IDEM_E_SYS);
  assert_int_equal(half.times, 0);
  module->begin(store, IDEM__REDIS_COMMANDS, 1500);
  send_all(store, IDEM__REDIS_COMMANDS);
  assert_true(feed(store, IDEM__REDIS_COMMANDS, SHAS, strlen(SHAS)));
  join(store, 1500);
  assert_int_equal(module->output(store, IDEM__REDIS_COMMANDS, 1500, &bytes), len);
  module->sent(store, IDEM__REDIS_COMMANDS, len);
  assert_true(feed(store, IDEM__REDIS_COMMANDS, made, strlen(made)));
  assert_int_equal(half.times, 1);
  assert_int_equal(half.answer.status, IDEM_OK);
  idem__store_unref(store);
}

static void the_grace_is_over_once_and_for_everybody(void **state) {
  uint64_t next;
  (void)state;
  idem__store *store = open_ready();
  ended waits = {.times = 0}, late = {.times = 0};
  module->end(store, IDEM__REDIS_NEWS, 2000);
  ask(store, IDEM__STORE_GET, &waits);
  assert_true(module->tick(store, IDEM__REDIS_COMMANDS, 2500, &next));
  assert_int_equal(waits.times, 0);
  assert_true(next <= 3000);
  assert_true(module->tick(store, IDEM__REDIS_COMMANDS, 3000, &next));
  assert_int_equal(waits.answer.status, IDEM_E_SYS);
  ask(store, IDEM__STORE_GET, &late);
  assert_int_equal(late.times, 1);
  assert_int_equal(late.answer.status, IDEM_E_SYS);
  idem__redis_counts counts;
  module->counts(store, &counts);
  assert_true(counts.refused == 2 && counts.unknown == 0 && !counts.ready && counts.waiting == 0);
  idem__store_unref(store);
}

static void an_answer_that_does_not_come_ends_the_connection(void **state) {
  uint64_t next;
  (void)state;
  idem__store *store = open_ready();
  ended one = {.times = 0};
  ask(store, IDEM__STORE_GET, &one);
  send_all(store, IDEM__REDIS_COMMANDS);
  assert_true(module->tick(store, IDEM__REDIS_COMMANDS, 5999, &next));
  assert_false(module->tick(store, IDEM__REDIS_COMMANDS, 6000, &next));
  module->end(store, IDEM__REDIS_COMMANDS, 6000);
  assert_int_equal(one.answer.status, IDEM_E_SYS);
  idem__store_unref(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_answer_that_is_none_breaks_the_connection),
      cmocka_unit_test(a_peek_believes_no_answer_of_another_shape),
      cmocka_unit_test(a_peek_without_a_clock_judges_nothing),
      cmocka_unit_test(a_page_that_does_not_get_on_is_not_asked_for_again),
      cmocka_unit_test(an_answer_that_nobody_waits_for_breaks_the_connection),
      cmocka_unit_test(an_error_is_not_the_connections),
      cmocka_unit_test(a_cluster_that_leads_nowhere_is_not_followed),
      cmocka_unit_test(what_has_moved_is_asked_for_elsewhere),
      cmocka_unit_test(what_redis_says_is_shown_as_far_as_it_can_be_printed),
      cmocka_unit_test(first_words_that_are_not_answered_as_asked_let_nobody_in),
      cmocka_unit_test(a_store_that_is_another_lets_nobody_in),
      cmocka_unit_test(a_store_that_is_elsewhere_is_looked_for_there),
      cmocka_unit_test(a_cluster_without_a_node_for_the_store_is_not_waited_for),
      cmocka_unit_test(news_that_nobody_of_ours_wrote_are_passed_over),
      cmocka_unit_test(whoever_tells_no_more_news_is_left_with_the_reason),
      cmocka_unit_test(a_queue_that_is_full_refuses),
      cmocka_unit_test(what_was_not_sent_whole_goes_with_the_next_connection),
      cmocka_unit_test(the_grace_is_over_once_and_for_everybody),
      cmocka_unit_test(an_answer_that_does_not_come_ends_the_connection),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
