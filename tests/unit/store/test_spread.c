/* test_spread.c - a store that is spread over several keeps the contract of stores: over stores in memory, over ones that answer
 * later and in odd orders, without memory; one of them that does not answer fails what is its own; lists are whole. */
#include "support/fault_alloc.h"
#include "support/later_store.h"
#include "support/store_contract.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define PARTS 5u

static _Atomic uint64_t ticks;

static idem__store *make_of(unsigned count, size_t max_bytes, bool later) {
  idem__store *parts[IDEM__STORE_PARTS_MAX], *store;
  for (unsigned i = 0; i < count; i++) {
    idem__store_memory_opts opts = {.max_bytes = max_bytes / count, .seed = i, .clock = &ticks};
    assert_int_equal(idem__store_memory_new(&opts, &parts[i]), IDEM_OK);
    if (later) parts[i] = later_store_new(parts[i], &(later_store_opts){.seed = i + 1});
  }
  idem__store_spread_opts opts = {.parts = parts, .count = count};
  return idem__store_spread_new(&opts, &store) == IDEM_OK ? store : NULL;
}

static idem__store *make(size_t max_bytes) { return make_of(PARTS, max_bytes, false); }

static idem__store *make_later(size_t max_bytes) { return make_of(PARTS, max_bytes, true); }

static void pump(idem__store *store) {
  bool any = true;
  while (any) {
    any = false;
    for (unsigned i = 0; i < PARTS; i++) any |= later_store_pump(idem__store_spread_at(store, i));
  }
}

/* ------------------------------------------------------------------ asking */

typedef struct shown {
  uint64_t numbers[512];
  char names[512][16];
  size_t count;
  size_t most; /* then it is enough; 0: never */
  unsigned done;
  idem_status status;
} shown;

static bool show(const idem__store_item *item, void *user) {
  shown *self = user;
  assert_true(self->count < 512 && item->name_len < 16);
  assert_false(self->done);
  memcpy(self->names[self->count], item->name, item->name_len);
  self->names[self->count][item->name_len] = '\0';
  self->numbers[self->count++] = item->number;
  assert_int_equal(item->len, item->name_len);
  assert_memory_equal(item->bytes, item->name, item->len);
  return self->count != self->most;
}

static void on_done(const idem__store_answer *answer, void *user) {
  shown *self = user;
  self->done++;
  self->status = answer->status;
}

static idem_status put(idem__store *store, const char *name, const char *group, size_t limit) {
  shown all = {.done = 0};
  idem__store_op op = {.verb = IDEM__STORE_PUT, .name = name, .name_len = strlen(name)};
  op.bytes = name;
  op.len = op.name_len;
  op.group = group;
  op.limit = limit;
  op.done = on_done;
  op.user = &all;
  idem__store_run(store, &op);
  if (!store->kind->immediate) pump(store);
  assert_int_equal(all.done, 1);
  return all.status;
}

static void list(idem__store *store, shown *into, const char *group, uint64_t after, size_t limit) {
  idem__store_op op = {.verb = IDEM__STORE_LIST, .group = group, .after = after, .limit = limit};
  op.each = show;
  op.done = on_done;
  op.user = into;
  *into = (shown){.most = into->most};
  idem__store_run(store, &op);
}

/* ----------------------------------------------------------------- records */

static void records_are_everywhere_and_each_is_in_one_place(void **state) {
  (void)state;
  idem__store *store = make(0);
  char name[16];
  for (unsigned i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "n%u", i);
    assert_int_equal(put(store, name, NULL, 0), IDEM_OK);
  }
  size_t all = 0;
  for (unsigned i = 0; i < PARTS; i++) {
    size_t there =
        idem__store_memory_records(idem__store_spread_at(store, i), IDEM__STORE_SESSIONS);
    assert_in_range(there, 150, 250);
    all += there;
  }
  assert_int_equal(all, 1000);
  assert_null(idem__store_spread_at(store, PARTS));
  idem__store_unref(store);
}

/* Another version that came to something else would not find what this one kept. */
static void a_name_lives_where_it_always_did(void **state) {
  (void)state;
  static const struct {
    const char *name;
    idem__store_space space;
    unsigned of_12, of_64;
  } known[] = {{"", IDEM__STORE_SESSIONS, 3, 27},
               {"a", IDEM__STORE_SESSIONS, 7, 63},
               {"a", IDEM__STORE_TASKS, 8, 48},
               {"requestState", IDEM__STORE_KEYS, 6, 54}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t len = strlen(known[i].name);
    assert_int_equal(idem__store_spread_place(12, known[i].space, known[i].name, len),
                     known[i].of_12);
    assert_int_equal(idem__store_spread_place(64, known[i].space, known[i].name, len),
                     known[i].of_64);
  }
}

static void names_that_begin_alike_are_kept_together_where_they_shall(void **state) {
  (void)state;
  idem__store *store = make(0);
  char name[16];
  unsigned home = idem__store_part(store, IDEM__STORE_LETTERS, "node-1", 6);
  for (unsigned i = 0; i < 100; i++) {
    snprintf(name, sizeof name, "node-1/%u", i);
    idem__store_op op = {.verb = IDEM__STORE_PUT, .space = IDEM__STORE_LETTERS, .name = name};
    op.name_len = strlen(name);
    op.lead = 6;
    assert_int_equal(idem__store_ask(store, &op, NULL).status, IDEM_OK);
    op.verb = IDEM__STORE_GET;
    assert_int_equal(idem__store_ask(store, &op, NULL).status, IDEM_OK);
  }
  assert_int_equal(
      idem__store_memory_records(idem__store_spread_at(store, home), IDEM__STORE_LETTERS), 100);
  idem__store_unref(store);
}

/* ------------------------------------------------------------------ limits */

/* Of all together, and chance alone takes little of it. */
static void a_limit_is_divided_and_nearly_reached(void **state) {
  (void)state;
  idem__store *store = make(0);
  char name[16];
  unsigned kept = 0, before = 0;
  for (unsigned i = 0; i < 20000; i++) {
    snprintf(name, sizeof name, "n%u", i);
    idem_status status = put(store, name, NULL, 5000);
    assert_true(status == IDEM_OK || status == IDEM_E_LIMIT);
    kept += status == IDEM_OK;
    if (status == IDEM_E_LIMIT && !before) before = kept;
  }
  assert_int_equal(kept, 5000);
  assert_in_range(before, 4600, 5000);
  idem__store_unref(store);
}

static void a_limit_below_the_number_of_parts_still_takes_one_each(void **state) {
  (void)state;
  idem__store *store = make(0);
  char name[16];
  unsigned kept = 0;
  for (unsigned i = 0; i < 200; i++) {
    snprintf(name, sizeof name, "n%u", i);
    kept += put(store, name, NULL, 2) == IDEM_OK;
  }
  assert_int_equal(kept, PARTS);
  idem__store_unref(store);
}

/* ------------------------------------------------------------------- lists */

static void fill(idem__store *store, unsigned count, const char *group) {
  char name[16];
  for (unsigned i = 0; i < count; i++) {
    snprintf(name, sizeof name, "n%u", i);
    assert_int_equal(put(store, name, group, 0), IDEM_OK);
  }
}

static void pages_show_each_record_once_and_in_order(void **state) {
  (void)state;
  idem__store *store = make_later(0);
  fill(store, 300, "mine");
  for (size_t limit = 1; limit < 400; limit = limit * 3 + 1) {
    uint64_t after = 0;
    unsigned seen = 0;
    char name[16];
    shown page = {.most = 0};
    do {
      list(store, &page, "mine", after, limit);
      assert_false(page.done); /* it waits for all parts */
      pump(store);
      assert_true(page.done == 1 && page.status == IDEM_OK && page.count <= limit);
      for (size_t i = 0; i < page.count; i++) {
        snprintf(name, sizeof name, "n%u", seen++);
        assert_string_equal(page.names[i], name);
        assert_true(page.numbers[i] > after);
        after = page.numbers[i];
      }
    } while (page.count);
    assert_int_equal(seen, 300);
  }
  idem__store_unref(store);
}

/* Clocks of several machines: births repeat and are far apart, and no record is missed or seen twice. */
static void pages_are_whole_though_clocks_differ(void **state) {
  (void)state;
  static _Atomic uint64_t clocks[PARTS];
  idem__store *parts[PARTS], *store;
  for (unsigned i = 0; i < PARTS; i++) {
    idem__store_memory_opts opts = {.seed = i, .clock = &clocks[i]};
    atomic_store(&clocks[i], i % 2 ? 1000 : 1000 + 40 * i);
    assert_int_equal(idem__store_memory_new(&opts, &parts[i]), IDEM_OK);
  }
  idem__store_spread_opts opts = {.parts = parts, .count = PARTS};
  assert_int_equal(idem__store_spread_new(&opts, &store), IDEM_OK);
  fill(store, 400, NULL);
  unsigned times[400] = {0};
  uint64_t after = 0;
  shown page = {.most = 0};
  do {
    list(store, &page, NULL, after, 7);
    assert_true(page.done == 1 && page.status == IDEM_OK);
    for (size_t i = 0; i < page.count; i++) {
      times[strtoul(page.names[i] + 1, NULL, 10)]++;
      assert_true(page.numbers[i] > after);
      after = page.numbers[i];
    }
  } while (page.count);
  for (unsigned i = 0; i < 400; i++) assert_int_equal(times[i], 1);
  idem__store_unref(store);
}

static void who_has_seen_enough_is_shown_no_more(void **state) {
  (void)state;
  idem__store *store = make(0);
  fill(store, 50, NULL);
  shown some = {.most = 4};
  list(store, &some, NULL, 0, 0);
  assert_int_equal(some.count, 4);
  assert_int_equal(some.done, 1);
  assert_int_equal(some.status, IDEM_OK);
  assert_string_equal(some.names[3], "n3");
  idem__store_op none = {.verb = IDEM__STORE_LIST};
  assert_int_equal(idem__store_ask(store, &none, NULL).status, IDEM_E_INVAL);
  idem__store_unref(store);
}

static void a_list_that_holds_too_much_is_refused_whole(void **state) {
  (void)state;
  static char large[8 << 20];
  idem__store *store = make(0);
  for (int i = 0; i < 10; i++) {
    char name = (char)('a' + i);
    idem__store_op op = {.verb = IDEM__STORE_PUT, .name = &name, .name_len = 1, .bytes = large};
    op.len = sizeof large;
    assert_int_equal(idem__store_ask(store, &op, NULL).status, IDEM_OK);
  }
  shown all = {.most = 0};
  list(store, &all, NULL, 0, 0);
  assert_int_equal(all.count, 0);
  assert_int_equal(all.status, IDEM_E_LIMIT);
  idem__store_unref(store);
}

/* --------------------------------------------------- one that does not answer */

static void a_part_that_fails_fails_its_own_and_lists(void **state) {
  (void)state;
  idem__store *store = make_later(0);
  char here[STORE_NAME_ROOM], there[STORE_NAME_ROOM];
  store_name_in(here, PARTS, IDEM__STORE_SESSIONS, 1, "h");
  store_name_in(there, PARTS, IDEM__STORE_SESSIONS, 2, "t");
  later_store_fail(idem__store_spread_at(store, 1), IDEM_E_SYS);
  assert_int_equal(put(store, here, NULL, 0), IDEM_E_SYS);
  assert_int_equal(put(store, there, NULL, 0), IDEM_OK);
  shown all = {.most = 0};
  list(store, &all, NULL, 0, 0);
  pump(store);
  assert_true(all.done == 1 && all.status == IDEM_E_SYS && !all.count);
  later_store_fail(idem__store_spread_at(store, 1), IDEM_OK);
  list(store, &all, NULL, 0, 0);
  pump(store);
  assert_true(all.done == 1 && all.status == IDEM_OK && all.count == 1);
  idem__store_unref(store);
}

static bool is_ready(void *user, unsigned part) { return part < *(const unsigned *)user; }

static void most_parts_are_enough_to_be_ready(void **state) {
  (void)state;
  idem__store *parts[4], *store;
  for (unsigned i = 0; i < 4; i++)
    assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){.seed = i}, &parts[i]),
                     IDEM_OK);
  unsigned there;
  idem__store_spread_opts opts = {.parts = parts, .count = 4, .ready = is_ready, .user = &there};
  assert_int_equal(idem__store_spread_new(&opts, &store), IDEM_OK);
  for (there = 0; there <= 4; there++) assert_int_equal(store->kind->reaches(store), there > 2);
  idem__store_unref(store);
  opts.count = 0;
  assert_int_equal(idem__store_spread_new(&opts, &store), IDEM_E_INVAL);
}

/* -------------------------------------------------------------------- ends */

/* Asks again when it hears that the store is going: it is told so at once. */
typedef struct stubborn {
  idem__store *store;
  unsigned closed;
} stubborn;

static void ask_again(const idem__store_answer *answer, void *user) {
  stubborn *self = user;
  if (answer->status == IDEM_E_NOTFOUND) return; /* the one that happened */
  assert_int_equal(answer->status, IDEM_E_CLOSED);
  if (self->closed++ % 4 == 3) return;
  char name[16];
  snprintf(name, sizeof name, "n%u", self->closed);
  idem__store_op op = {.verb = IDEM__STORE_GET, .name = name, .name_len = strlen(name)};
  op.done = ask_again;
  op.user = self;
  idem__store_run(self->store, &op);
}

static void what_is_open_when_it_goes_ends_once(void **state) {
  (void)state;
  idem__store *store = make_later(0);
  stubborn self = {.store = store};
  shown all = {.most = 0};
  for (unsigned i = 0; i < 100; i++) {
    char name[16];
    snprintf(name, sizeof name, "n%u", i);
    idem__store_op op = {.verb = IDEM__STORE_GET, .name = name, .name_len = strlen(name)};
    op.done = ask_again;
    op.user = &self;
    idem__store_run(store, &op);
  }
  list(store, &all, NULL, 0, 0);
  later_store_pump(idem__store_spread_at(store, 0)); /* one of them, perhaps its part of the list */
  idem__store_unref(store);
  assert_true(all.done == 1 && all.status == IDEM_E_CLOSED);
  assert_true(self.closed >= 99);
}

static void hear(const idem__store_change *change, void *user) {
  (void)change;
  ++*(unsigned *)user;
}

/* A bit of everything; any status will do, but nothing may leak. */
static void use(fault_alloc *fault, void *user) {
  (void)user;
  idem__store *parts[3] = {NULL}, *store = NULL;
  idem__store_watcher *watcher = NULL;
  unsigned heard = 0;
  bool made = true;
  for (unsigned i = 0; i < 3 && made; i++) {
    idem__store_memory_opts opts = {.seed = i, .clock = &ticks, .alloc = &fault->alloc};
    made = idem__store_memory_new(&opts, &parts[i]) == IDEM_OK;
    if (!made) parts[i] = NULL;
  }
  idem__store_spread_opts opts = {.parts = parts, .count = 3, .alloc = &fault->alloc};
  if (!made || idem__store_spread_new(&opts, &store) != IDEM_OK) {
    for (unsigned i = 0; i < 3; i++) idem__store_unref(parts[i]);
    return;
  }
  if (idem__store_watch(store, IDEM__STORE_SESSIONS, hear, &heard, &watcher) != IDEM_OK)
    assert_null(watcher);
  unsigned kept = 0;
  char name[16];
  for (unsigned i = 0; i < 8; i++) {
    snprintf(name, sizeof name, "n%u", i);
    kept += put(store, name, "mine", 0) == IDEM_OK;
  }
  assert_true(!watcher || heard == kept);
  shown all = {.most = 0};
  list(store, &all, "mine", 0, 5);
  assert_int_equal(all.done, 1);
  assert_true(all.count <= (kept < 5 ? kept : 5)); /* without memory a part shows less */
  if (all.status != IDEM_OK) assert_int_equal(all.count, 0);
  idem__store_unwatch(store, watcher);
  idem__store_unref(store);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(use, NULL, 300) > 20);
}

int main(void) {
  const store_maker now = {.name = "store.spread", .make = make, .parts = PARTS};
  const store_maker later = {
      .name = "store.spread.later", .make = make_later, .pump = pump, .parts = PARTS};
  const struct CMUnitTest own[] = {
      cmocka_unit_test(records_are_everywhere_and_each_is_in_one_place),
      cmocka_unit_test(a_name_lives_where_it_always_did),
      cmocka_unit_test(names_that_begin_alike_are_kept_together_where_they_shall),
      cmocka_unit_test(a_limit_is_divided_and_nearly_reached),
      cmocka_unit_test(a_limit_below_the_number_of_parts_still_takes_one_each),
      cmocka_unit_test(pages_show_each_record_once_and_in_order),
      cmocka_unit_test(pages_are_whole_though_clocks_differ),
      cmocka_unit_test(who_has_seen_enough_is_shown_no_more),
      cmocka_unit_test(a_list_that_holds_too_much_is_refused_whole),
      cmocka_unit_test(a_part_that_fails_fails_its_own_and_lists),
      cmocka_unit_test(most_parts_are_enough_to_be_ready),
      cmocka_unit_test(what_is_open_when_it_goes_ends_once),
      cmocka_unit_test(every_allocation_may_fail),
  };
  int failed = store_contract_run(&now) + store_contract_run(&later);
  return failed + cmocka_run_group_tests(own, NULL, NULL);
}
