/* test_turns.c - who waits gets its turn: neither a busy client nor a busy tool starves the others, and a full
 * queue takes from who has most. */
#include "support/unit.h"

#include "service/slots.h"
#include <idem/mcp.h>

/* In place of the library's: here a request is the name of its client. */
idem_client_identity idem_request_client(const idem_request *request) {
  return (idem_client_identity){.bytes = request, .len = strlen((const char *)request)};
}
/* In place of room.c: of these none reads. */
static char unread[8];
static int looks;
bool room_for(const idem_request *request) {
  return !*unread || !strchr(unread, *(const char *)request);
}
void room_wait_init(room_wait *self, void (*look)(room_wait *self)) { self->look = look; }
void room_look_soon(room_wait *self) {
  (void)self;
  looks++;
}
static const idem_request *client(const char *name) { return (const void *)name; }

typedef struct call {
  turns_call turn;
  const char *name;
} call;

static char begun[256], gone[256];

static void note(char *list, const turns_call *turn) {
  strcat(list, ((const call *)(const void *)turn)->name);
  strcat(list, " ");
}
static void begin(turns_call *turn) { note(begun, turn); }
static void give_way(turns_call *turn) { note(gone, turn); }

static void open_slots(slots *self, size_t limit, size_t queue) {
  begun[0] = gone[0] = '\0';
  slots_init(self, begin, give_way);
  self->limit = limit;
  self->queue = queue;
}

static slot_answer ask(slots *self, call *one, const char *name, turns_tool *tool,
                       const char *who) {
  *one = (call){.name = name};
  return slots_ask(self, &one->turn, tool, client(who));
}

static void drain(slots *self) {
  while (self->taken) slots_give_back(self);
}

static void who_finds_a_slot_has_it_at_once(void **state) {
  (void)state;
  slots self;
  turns_tool tool;
  call calls[3];
  open_slots(&self, 2, 0);
  turns_tool_init(&tool);
  assert_int_equal(ask(&self, &calls[0], "a1", &tool, "a"), SLOT_TAKEN);
  assert_int_equal(ask(&self, &calls[1], "a2", &tool, "a"), SLOT_TAKEN);
  assert_int_equal(ask(&self, &calls[2], "a3", &tool, "a"), SLOT_BUSY);
  drain(&self);
  assert_string_equal(begun, "");
}

static void clients_take_turns(void **state) {
  (void)state;
  slots self;
  turns_tool tool;
  call calls[6];
  static const char *const names[] = {"a0", "a1", "a2", "a3", "b1", "c1"};
  open_slots(&self, 1, 10);
  turns_tool_init(&tool);
  for (size_t i = 0; i < 6; i++) ask(&self, &calls[i], names[i], &tool, (char[]){names[i][0], 0});
  /* The text of a client is copied: what was given is gone by now. */
  drain(&self);
  assert_int_equal(self.turns.count, 0);
  /* a had the first; b and c do not wait for all of a's. */
  assert_true(strstr(begun, "b1") < strstr(begun, "a3"));
  assert_true(strstr(begun, "c1") < strstr(begun, "a3"));
  assert_int_equal(strlen(begun), strlen("a1 a2 a3 b1 c1 "));
}

static void tools_take_turns(void **state) {
  (void)state;
  slots self;
  turns_tool slow, quick;
  call calls[6];
  static const char *const names[] = {"s0", "s1", "s2", "s3", "s4", "q1"};
  open_slots(&self, 1, 10);
  turns_tool_init(&slow);
  turns_tool_init(&quick);
  for (size_t i = 0; i < 6; i++)
    ask(&self, &calls[i], names[i], names[i][0] == 's' ? &slow : &quick, "a");
  drain(&self);
  assert_true(strstr(begun, "q1") < strstr(begun, "s3"));
}

static void a_full_queue_takes_from_who_has_most(void **state) {
  (void)state;
  slots self;
  turns_tool tool;
  call calls[6];
  open_slots(&self, 1, 3);
  turns_tool_init(&tool);
  ask(&self, &calls[0], "a0", &tool, "a");
  ask(&self, &calls[1], "a1", &tool, "a");
  ask(&self, &calls[2], "a2", &tool, "a");
  ask(&self, &calls[3], "a3", &tool, "a");
  assert_int_equal(ask(&self, &calls[4], "a4", &tool, "a"), SLOT_BUSY);
  assert_int_equal(ask(&self, &calls[5], "b1", &tool, "b"), SLOT_WAITS);
  assert_string_equal(gone, "a3 ");
  drain(&self);
  assert_true(strstr(begun, "b1") != NULL);
}

static void who_leaves_waits_no_longer(void **state) {
  (void)state;
  slots self;
  turns_tool tool;
  call calls[3];
  open_slots(&self, 1, 3);
  turns_tool_init(&tool);
  ask(&self, &calls[0], "a0", &tool, "a");
  ask(&self, &calls[1], "a1", &tool, "a");
  ask(&self, &calls[2], "b1", &tool, "b");
  slots_leave(&self, &calls[1].turn);
  assert_null(calls[1].turn.lane);
  drain(&self);
  assert_string_equal(begun, "b1 ");
}

static void a_raised_limit_lets_them_begin(void **state) {
  (void)state;
  slots self;
  turns_tool tool;
  call calls[3];
  open_slots(&self, 1, 3);
  turns_tool_init(&tool);
  ask(&self, &calls[0], "a0", &tool, "a");
  ask(&self, &calls[1], "a1", &tool, "a");
  ask(&self, &calls[2], "a2", &tool, "a");
  self.limit = 2;
  slots_next(&self);
  assert_string_equal(begun, "a1 ");
  drain(&self);
  assert_string_equal(begun, "a1 a2 ");
}

static void who_does_not_read_waits_and_holds_up_nobody(void **state) {
  (void)state;
  slots self;
  turns_tool tool, other;
  call calls[5];
  open_slots(&self, 2, 10);
  turns_tool_init(&tool);
  turns_tool_init(&other);
  looks = 0;
  ask(&self, &calls[0], "a0", &tool, "a");
  strcpy(unread, "a");
  assert_int_equal(ask(&self, &calls[1], "a1", &tool, "a"), SLOT_WAITS); /* though a slot is free */
  assert_true(looks > 0);
  ask(&self, &calls[2], "a2", &other, "a");
  assert_int_equal(ask(&self, &calls[3], "b0", &tool, "b"), SLOT_TAKEN);
  ask(&self, &calls[4], "b1", &tool, "b");
  slots_give_back(&self);
  assert_string_equal(begun, "b1 ");
  slots_give_back(&self);
  assert_string_equal(begun, "b1 ");
  looks = 0;
  slots_next(&self);
  assert_int_equal(looks, 1);
  strcpy(unread, "");
  self.room.look(&self.room);
  drain(&self);
  assert_int_equal(strlen(begun), strlen("b1 a1 a2 "));
}

static void at_the_end_all_are_taken(void **state) {
  (void)state;
  slots self;
  turns_tool tool;
  call calls[2];
  open_slots(&self, 1, 10);
  turns_tool_init(&tool);
  strcpy(unread, "ab");
  ask(&self, &calls[0], "a0", &tool, "a");
  ask(&self, &calls[1], "b0", &tool, "b");
  assert_null(turns_take(&self.turns));
  assert_non_null(turns_take_any(&self.turns));
  assert_non_null(turns_take_any(&self.turns));
  assert_null(turns_take_any(&self.turns));
  strcpy(unread, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_finds_a_slot_has_it_at_once),
      cmocka_unit_test(clients_take_turns),
      cmocka_unit_test(tools_take_turns),
      cmocka_unit_test(a_full_queue_takes_from_who_has_most),
      cmocka_unit_test(who_leaves_waits_no_longer),
      cmocka_unit_test(a_raised_limit_lets_them_begin),
      cmocka_unit_test(who_does_not_read_waits_and_holds_up_nobody),
      cmocka_unit_test(at_the_end_all_are_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
