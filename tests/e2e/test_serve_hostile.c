/* test_serve_hostile.c - whatever a program does to stay, nothing of it is left when its call has ended
 * or the server has. This test adopts every process that gets away, so it would find them. */
#include "serving.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(SYS_landlock_create_ruleset)
#define SYS_landlock_create_ruleset 444
#endif

static const char config[] =
    "{\"concurrency\":4,\"tools\":{\n"
    " \"forks\":{\"run\":[\"sh\",\"-c\",\"sleep 1000 & sleep 1000 & echo done\"]},\n"
    " \"detaches\":{\"run\":[\"sh\",\"-c\",\"(setsid sh -c '(setsid sleep 1000 &)' &); "
    "env -i setsid sleep 1000 & nohup sleep 1000 >/dev/null 2>&1 & sleep 0.02; echo done\"]},\n"
    " \"floods\":{\"run\":[\"sh\",\"-c\",\"setsid sh -c 'yes | head -c 2000; : >$TMPDIR/flooded; "
    "exec yes' & "
    "until [ -e $TMPDIR/flooded ]; do sleep 0.01; done; echo done >&2; exit 3\"],"
    "\"output_bytes\":1000},\n"
    " \"hops\":{\"run\":[\"" HOSTILE "\",\"hop\"]},\n"
    " \"grows\":{\"run\":[\"" HOSTILE "\",\"grow\"]},\n"
    " \"knocks\":{\"run\":[\"" HOSTILE "\",\"knock\"]},\n"
    " \"knocks_allowed\":{\"run\":[\"" HOSTILE "\",\"knock\"],\"allow\":{\"net\":true}},\n"
    " \"grabs\":{\"args\":{\"pid\":\"integer\"},\"run\":[\"" HOSTILE "\",\"grab\",\"{pid}\"]},\n"
    " \"grabs_networked\":{\"args\":{\"pid\":\"integer\"},\"run\":[\"" HOSTILE
    "\",\"grab\",\"{pid}\"],\"allow\":{\"net\":true}},\n"
    " \"grabs_freely\":{\"args\":{\"pid\":\"integer\"},\"run\":[\"" HOSTILE
    "\",\"grab\",\"{pid}\"],\"confine\":false},\n"
    " \"owns\":{\"run\":[\"sh\",\"-c\",\"touch $TMPDIR/f && chown 1:1 $TMPDIR/f && echo "
    "chowned\"]},\n"
    " \"leaves\":{\"run\":[\"" HOSTILE "\",\"leave\"]},\n"
    " \"leaves_networked\":{\"run\":[\"" HOSTILE "\",\"leave\"],\"allow\":{\"net\":true}},\n"
    " \"kills\":{\"run\":[\"sh\",\"-c\",\"setsid sleep 1000 & kill -9 $PPID; sleep 1000\"],"
    "\"confine\":false},\n"
    " \"slow\":{\"run\":[\"sh\",\"-c\",\"echo progress: 1 >&2; sleep 0.3; echo slept\"],"
    "\"progress\":true},\n"
    " \"stays\":{\"run\":[\"sh\",\"-c\",\"trap 'echo asked; exit 0' TERM; setsid sleep 1000 & "
    "echo progress: 1 >&2; while :; do sleep 0.01; done\"],\"progress\":true},\n"
    " \"drips\":{\"run\":[\"sh\",\"-c\",\"echo progress: 1 >&2; exec yes '' >&2\"],"
    "\"progress\":true,\"deadline_ms\":9000},\n"
    " \"bombs\":{\"run\":[\"" HOSTILE "\",\"multiply\",\"200\"],\"processes\":50},\n"
    " \"bombs_apart\":{\"run\":[\"" HOSTILE
    "\",\"multiply\",\"200\",\"apart\"],\"processes\":50},\n"
    " \"threads\":{\"run\":[\"" HOSTILE "\",\"threads\",\"200\"],\"processes\":50},\n"
    " \"fits\":{\"run\":[\"" HOSTILE "\",\"multiply\",\"200\"],\"processes\":250},\n"
    " \"quick\":{\"run\":[\"echo\",\"hello\"]}\n"
    "}}";

/* ------------------------------------------------------------------ the process table */

/* A call's answer comes when nothing of it is left, so there is nothing to wait for. */
static void expect_only_idem(void) {
  processes all = processes_below_us();
  if (all.others[0]) fail_msg("left running: %s", all.others);
}

/* The server is reaped; what it started ends by itself or is ours now. */
static void expect_nobody(void) {
  uint64_t until = child_now_ms() + 60000;
  int reaped;
  while ((reaped = waitpid(-1, NULL, WNOHANG)) >= 0) {
    if (child_now_ms() > until) fail_msg("left running: %s", processes_below_us().others);
    if (reaped == 0) poll(NULL, 0, 5);
  }
}

/* --------------------------------------------------------------------------- calls */

static int start(void **state) {
  static serving self;
  assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  serving_make(&self, config);
  setenv("IDEM_TEST_SECRET", "x", 1);
  serving_start(&self);
  *state = &self;
  return 0;
}

static int end(void **state) {
  serving_end(*state);
  expect_nobody();
  return 0;
}

static void who_forks_or_detaches_ends_with_the_call(void **state) {
  expect_in(serving_call(*state, "forks", "{}"), "\"text\":\"done\\n\"");
  expect_only_idem();
  expect_in(serving_call(*state, "detaches", "{}"), "\"text\":\"done\\n\"");
  expect_only_idem();
  expect_in(serving_call(*state, "floods", "{}"), "The output was cut after 1000 bytes");
  expect_only_idem();
}

static void who_hops_from_process_to_process_is_caught(void **state) {
  expect_not_in(serving_call(*state, "hops", "{}"), "isError");
  expect_only_idem();
}

static void a_tree_of_processes_ends_as_a_whole(void **state) {
  expect_not_in(serving_call(*state, "grows", "{}"), "isError");
  expect_only_idem();
}

/* Whose leftovers they are is known, also with others running. */
static void one_call_s_end_is_not_another_s(void **state) {
  serving *self = *state;
  int slow = serving_send_call(self, "slow", "{}");
  child_line_with(self->server.out, "\"progressToken\":\"slow\"");
  expect_in(serving_call(self, "detaches", "{}"), "done");
  expect_in(serving_answer(self, slow), "\"text\":\"slept\\n\"");
  expect_only_idem();
}

/* A call like any other is answered meanwhile, and the deadline is kept. */
static void a_flood_of_short_lines_stops_nobody(void **state) {
  serving *self = *state;
  uint64_t began = child_now_ms();
  int drips = serving_send_call(self, "drips", "{}");
  child_line_with(self->server.out, "\"progressToken\":\"drips\"");
  for (int i = 0; i < 3; i++) expect_in(serving_ask(self, "ping", "{}"), "\"result\":{}");
  expect_in(serving_answer(self, drips), "9000 ms");
  assert_in_range(child_now_ms() - began, 1, 19000);
  expect_only_idem();
}

static void no_door_to_the_network_is_open(void **state) {
  const char *answer = serving_call(*state, "knocks", "{}");
  static const char *const closed[] = {"tcp", "udp", "udp6", "unix", "netlink", "packet"};
  for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s: Permission denied", closed[i]);
    expect_in(answer, wanted);
  }
  expect_in(answer, "ring: Function not implemented");
  expect_in(answer, "pair: open");
  expect_in(answer, "packets pair: open");
  expect_in(answer, "datagram pair: Permission denied");
  expect_in(answer, "raw pair: Permission denied");
  answer = serving_call(*state, "knocks_allowed", "{}");
  expect_in(answer, "tcp: open");
  expect_in(answer, "udp: open");
  expect_in(answer, "unix: open");
  expect_in(answer, "datagram pair: open");
}

/* Every line of the program's answer that is not said to be as expected. `said` may hold "\\n". */
static void expect_each(const char *answer, const char *const *names, const char *said) {
  for (; *names; names++) {
    char wanted[96];
    snprintf(wanted, sizeof wanted, "%s: %s\\n", *names, said);
    expect_in(answer, wanted);
  }
}

static const char *grab(serving *self, const char *tool, long pid) {
  char arguments[64];
  snprintf(arguments, sizeof arguments, "{\"pid\":%ld}", pid);
  return serving_call(self, tool, arguments);
}

#define SETTERS                                                                                    \
  "limits", "limits both ways", "\\npriority", "group's priority", "\\naffinity", "scheduler",     \
      "parameters", "\\nattributes", "\\ninput and output", "migrate", "move"

/* The server is the same user's; so is this test. What only asks is no harm. */
static void other_processes_are_left_alone(void **state) {
  static const char *const tools[] = {"grabs", "grabs_networked"};
  static const char *const closed[] = {SETTERS, "user's priority", "user's input and output",
                                       "advice", NULL};
  static const char *const asking[] = {"read limits", "read affinity", "read attributes", NULL};
  serving *self = *state;
  for (size_t i = 0; i < 2; i++) {
    const char *answer = grab(self, tools[i], self->server.pid);
    expect_each(answer, closed, "Operation not permitted");
    expect_each(answer, asking, "open");
#if defined(__x86_64__)
    expect_in(answer, "x32: Function not implemented");
    if (strstr(answer, "i386: not there")) continue;
    static const char *const closed_32[] = {"i386 limits", "i386 priority", "i386 affinity", NULL};
    expect_each(answer, closed_32, "Operation not permitted");
    expect_in(answer, "i386 own priority: open");
    expect_in(answer, "i386 queue: Function not implemented");
    expect_in(answer, "i386 ipc: Function not implemented");
#endif
  }
}

/* What it could without us: a container may have filters of its own. */
static void a_program_may_change_itself(void **state) {
  char wanted[96];
  size_t open = 0;
  child alone = CHILD(HOSTILE, "grab", "0");
  char *said = strdup(child_rest(alone.out));
  assert_non_null(said);
  assert_int_equal(child_end(&alone), 0);
  const char *answer = grab(*state, "grabs", 0);
  for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n")) {
    if (!strstr(line, ": open")) continue;
    snprintf(wanted, sizeof wanted, "%s\\n", line);
    expect_in(answer, wanted);
    open++;
  }
  free(said);
  assert_true(open >= 8);
}

static void who_is_not_confined_is_not_kept_from_others(void **state) {
  serving *self = *state;
  expect_in(grab(self, "grabs_freely", self->server.pid), "\\nlimits: open");
}

/* These are Landlock's to keep; without it the server warns. */
static void what_proc_tells_of_others_is_closed(void **state) {
  static const char *const closed[] = {"out of memory score", "memory", "environment", NULL};
  serving *self = *state;
  if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1u) < 1) {
    print_message("NOT TESTED: this kernel has no Landlock\n");
    return;
  }
  expect_each(grab(self, "grabs", self->server.pid), closed, "Permission denied");
}

/* CI's tests, for instance: the capabilities that look past Landlock are not its programs'. */
static void root_s_programs_have_not_all_of_root_s_power(void **state) {
  serving *self = *state;
  expect_in(grab(self, "grabs", self->server.pid), "machine: Operation not permitted");
  expect_in(grab(self, "grabs_networked", self->server.pid), "machine: Operation not permitted");
  if (geteuid() == 0)
    expect_in(serving_call(self, "owns", "{}"), "chowned"); /* files are Landlock's to keep */
}

static void nothing_by_number_outlives_a_call(void **state) {
  static const char *const tools[] = {"leaves", "leaves_networked"};
  static const char *const closed[] = {"memory",      "queue", "semaphores",
                                       "named queue", "keys",  NULL};
  static const char *const attributes[] = {"attribute", "attribute by descriptor", "\\nflags",
                                           NULL};
  serving_file(*state, "held", "x");
  for (size_t i = 0; i < 2; i++) {
    const char *answer = serving_call(*state, tools[i], "{}");
    expect_each(answer, closed, "Function not implemented");
    expect_each(answer, attributes, "Operation not supported");
    expect_not_in(answer, "read flags: Operation not supported");
  }
}

/* -------------------------------------------------------------- losing the helpers */

static void who_kills_its_keeper_is_ended_and_told_of(void **state) {
  const char *answer = serving_call(*state, "kills", "{}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "the process that watched over it was lost");
  expect_in(serving_call(*state, "quick", "{}"), "hello");
  uint64_t until = child_now_ms() + 60000;
  while (processes_below_us().others[0]) {
    if (child_now_ms() > until) fail_msg("left running: %s", processes_below_us().others);
    poll(NULL, 0, 5);
  }
}

static void a_lost_spawner_is_replaced_and_calls_go_on(void **state) {
  serving *self = *state;
  int slow = serving_send_call(self, "slow", "{}");
  child_line_with(self->server.out, "\"progressToken\":\"slow\"");
  long spawner = processes_below_us().spawner;
  assert_true(spawner > 1);
  assert_int_equal(kill((pid_t)spawner, SIGKILL), 0);
  expect_in(child_line_with(self->server.err, "the spawner has ended"), "a new one is started");
  expect_in(serving_answer(self, slow), "\"text\":\"slept\\n\"");
  expect_in(serving_call(self, "quick", "{}"), "hello");
  assert_true(processes_below_us().spawner > 1 && processes_below_us().spawner != spawner);
}

/* The spawner's children; those that have ended are none. */
static size_t list_runners(long spawner, pid_t *pids, size_t room) {
  char path[64];
  size_t count = 0;
  snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", spawner, spawner);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (count < room && fscanf(file, "%d", &pids[count]) == 1) count++;
  fclose(file);
  return count;
}

/* Also where each of them leaves the group, and where they are threads of one. */
static void a_program_has_so_many_processes_and_no_more(void **state) {
  static const char *const bombs[] = {"bombs", "bombs_apart", "threads"};
  for (size_t i = 0; i < 3; i++) {
    const char *answer = serving_call(*state, bombs[i], "{}");
    expect_in(answer, " was stopped: it had more than 50 processes and threads (processes)");
    expect_not_in(answer, "was not ended");
    expect_only_idem();
    expect_in(serving_call(*state, "quick", "{}"), "hello");
  }
  const char *answer = serving_call(*state, "fits", "{}");
  expect_in(answer, "was not ended");
  expect_not_in(answer, "was stopped");
  expect_only_idem();
}

static void none_of_the_server_s_secrets_are_in_the_spawner(void **state) {
  char path[64], held[65536];
  (void)state;
  snprintf(path, sizeof path, "/proc/%ld/environ", processes_below_us().spawner);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t len = fread(held, 1, sizeof held, file);
  fclose(file);
  assert_true(len < sizeof held);
  assert_null(memmem(held, len, "IDEM_TEST_SECRET", 16));
}

/* The call is there first, so that the server has not heard of their end when it chooses one. */
static void a_hand_that_died_idle_fails_no_call(void **state) {
  serving *self = *state;
  pid_t runners[64];
  int status;
  expect_in(serving_call(self, "quick", "{}"), "hello");
  long spawner = processes_below_us().spawner;
  assert_int_equal(kill(self->server.pid, SIGSTOP), 0);
  assert_int_equal(waitpid(self->server.pid, &status, WUNTRACED), self->server.pid);
  int id = serving_send_call(self, "quick", "{}");
  size_t count = list_runners(spawner, runners, 64);
  assert_true(count > 0);
  for (size_t i = 0; i < count; i++) assert_int_equal(kill(runners[i], SIGKILL), 0);
  while (list_runners(spawner, runners, 64) > 0) poll(NULL, 0, 5);
  assert_int_equal(kill(self->server.pid, SIGCONT), 0);
  expect_in(serving_answer(self, id), "\"text\":\"hello\\n\"");
}

/* Dead, and not reaped. */
static bool is_zombie(pid_t pid) {
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
  fclose(file);
  return state == 'Z';
}

/* Without a hand that could do it, the call depends on a spawner that stands still. */
static void a_spawner_that_does_not_answer_is_given_up(void **state) {
  serving *self = *state;
  pid_t runners[64];
  long spawner = processes_below_us().spawner;
  assert_int_equal(kill((pid_t)spawner, SIGSTOP), 0);
  size_t count = list_runners(spawner, runners, 64);
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(kill(runners[i], SIGKILL), 0);
    while (!is_zombie(runners[i])) poll(NULL, 0, 5);
  }
  char message[160];
  snprintf(message, sizeof message, /* who waits for a hand can give up, too */
           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
           "\"requestId\":%d}}\n",
           serving_send_call(self, "quick", "{}"));
  child_send(self->server.in, message);
  const char *answer = serving_call(self, "quick", "{}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "quick could not be started: the spawner did not answer in time");
  child_line_with(self->server.err, "the spawner does not answer");
  expect_in(serving_call(self, "quick", "{}"), "hello");
  assert_true(processes_below_us().spawner > 1 && processes_below_us().spawner != spawner);
}

/* ------------------------------------------------------------------- the spawner alone */

static pid_t start_spawner(int *socket) {
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    if (pair[1] != 3) dup2(pair[1], 3);
    execl(IDEM_BIN_DIR "/idem", "idem", "--spawner", (char *)NULL);
    _exit(127);
  }
  close(pair[1]);
  *socket = pair[0];
  return pid;
}

/* A wish for a hand, and six descriptors with it, where none is expected and five would fit. */
static void send_six_descriptors(int socket) {
  int32_t note[2] = {4, 0}, fds[6] = {2, 2, 2, 2, 2, 2};
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {0};
  struct iovec part = {note, sizeof note};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  *head = (struct cmsghdr){
      .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
  memcpy(CMSG_DATA(head), fds, sizeof fds);
  assert_int_equal(sendmsg(socket, &message, 0), sizeof note);
}

static void too_many_descriptors_do_no_harm(void **state) {
  int socket, status;
  int32_t note[2] = {0, 0};
  (void)state;
  pid_t spawner = start_spawner(&socket);
  send_six_descriptors(socket);
  assert_int_equal(recv(socket, note, sizeof note, 0), sizeof note);
  assert_int_equal(note[0], 9); /* REPORT_HAND */
  close(socket);
  assert_int_equal(waitpid(spawner, &status, 0), spawner);
  assert_int_equal(status, 0);
}

/* ------------------------------------------------------------------------- signals */

static void begin_staying(serving *self) {
  serving_make(self, config);
  serving_start(self);
  serving_send_call(self, "stays", "{}");
  child_line_with(self->server.out, "\"progressToken\":\"stays\"");
}

static void a_signal_ends_the_server_and_all_it_runs(void **state) {
  static const int numbers[] = {SIGTERM, SIGINT, SIGKILL};
  (void)state;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    serving self;
    begin_staying(&self);
    assert_int_equal(kill(self.server.pid, numbers[i]), 0);
    assert_int_equal(child_end(&self.server), numbers[i] == SIGKILL ? -SIGKILL : 0);
    expect_nobody();
    child_remove_folder(self.folder);
  }
}

static void a_hangup_reads_the_file_again_and_disturbs_no_call(void **state) {
  serving *self = *state;
  int slow = serving_send_call(self, "slow", "{}");
  child_line_with(self->server.out, "\"progressToken\":\"slow\"");
  assert_int_equal(kill(self->server.pid, SIGHUP), 0);
  child_line_with(self->server.err, "configuration reloaded");
  expect_in(serving_answer(self, slow), "\"text\":\"slept\\n\"");
  expect_in(serving_call(self, "quick", "{}"), "hello");
}

int main(void) {
  const struct CMUnitTest alone[] = {
      cmocka_unit_test(too_many_descriptors_do_no_harm),
      cmocka_unit_test(a_signal_ends_the_server_and_all_it_runs),
  };
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_forks_or_detaches_ends_with_the_call),
      cmocka_unit_test(who_hops_from_process_to_process_is_caught),
      cmocka_unit_test(a_tree_of_processes_ends_as_a_whole),
      cmocka_unit_test(one_call_s_end_is_not_another_s),
      cmocka_unit_test(a_flood_of_short_lines_stops_nobody),
      cmocka_unit_test(no_door_to_the_network_is_open),
      cmocka_unit_test(other_processes_are_left_alone),
      cmocka_unit_test(a_program_may_change_itself),
      cmocka_unit_test(who_is_not_confined_is_not_kept_from_others),
      cmocka_unit_test(what_proc_tells_of_others_is_closed),
      cmocka_unit_test(root_s_programs_have_not_all_of_root_s_power),
      cmocka_unit_test(nothing_by_number_outlives_a_call),
      cmocka_unit_test(a_hangup_reads_the_file_again_and_disturbs_no_call),
      cmocka_unit_test(who_kills_its_keeper_is_ended_and_told_of),
      cmocka_unit_test(a_program_has_so_many_processes_and_no_more),
      cmocka_unit_test(none_of_the_server_s_secrets_are_in_the_spawner),
      cmocka_unit_test(a_lost_spawner_is_replaced_and_calls_go_on),
      cmocka_unit_test(a_hand_that_died_idle_fails_no_call),
      cmocka_unit_test(a_spawner_that_does_not_answer_is_given_up),
  };
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  int failed = cmocka_run_group_tests(alone, NULL, NULL);
  return failed + cmocka_run_group_tests(tests, start, end);
}
