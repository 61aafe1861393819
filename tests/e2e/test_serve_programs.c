/* test_serve_programs.c - programs that misbehave are contained and reported, and none is left
 * running, whoever ends first. */
#include "serving.h"

#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char config[] =
    "{\"concurrency\":2,\"queue\":1,\"tools\":{\n"
    " \"env\":{\"run\":[\"env\"],\"env\":{\"GIVEN\":\"yes\",\"KEY\":{\"file\":\"key\"}}},\n"
    " \"fails\":{\"run\":[\"sh\",\"-c\",\"echo part; echo key is $KEY >&2; exit 3\"],"
    "\"env\":{\"KEY\":{\"file\":\"key\"}}},\n"
    " \"hides\":{\"run\":[\"sh\",\"-c\",\"echo hidden >&2; exit 3\"],\"stderr\":\"hide\"},\n"
    " \"dies\":{\"run\":[\"sh\",\"-c\",\"kill -SEGV $$\"]},\n"
    " \"floods\":{\"run\":[\"yes\"],\"output_bytes\":1000},\n"
    " \"floods_json\":{\"run\":[\"yes\"],\"output_bytes\":1000,\"output\":\"json\"},\n"
    " \"floods_errors\":{\"run\":[\"sh\",\"-c\",\"yes >&2\"],\"deadline_ms\":300},\n"
    " \"silent\":{\"run\":[\"sleep\",\"1000\"],\"idle_ms\":400},\n"
    " \"stubborn\":{\"run\":[\"sh\",\"-c\",\"trap '' TERM; echo progress: 1 $$ >&2;"
    " while :; do sleep 0.05; done\"],\"progress\":true},\n"
    " \"late\":{\"run\":[\"sh\",\"-c\",\"trap '' TERM; echo $$ >out/late; while :; do sleep 0.05;"
    " done\"],\"deadline_ms\":1000,\"allow\":{\"write\":[\"out\"]}},\n"
    " \"sleeps\":{\"run\":[\"sh\",\"-c\",\"sleep 1000 & echo progress: 1/2 $! >&2; wait\"],"
    "\"progress\":true},\n"
    " \"detaches\":{\"run\":[\"sh\",\"-c\",\"setsid sleep 1000 & echo progress: 1 $! >&2\"],"
    "\"progress\":true},\n"
    " \"binary\":{\"run\":[\"printf\",\"a\\\\377\\\\000b\"]},\n"
    " \"json\":{\"run\":[\"printf\",\"%s\",\"{t}\"],\"args\":{\"t\":\"string\"},\"output\":"
    "\"json\","
    "\"output_schema\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},"
    "\"required\":[\"n\"]}},\n"
    " \"quick\":{\"run\":[\"echo\",\"hello\"]}\n"
    "}}";

static int start(void **state) {
  static serving self;
  setenv("SECRET_OF_THE_SERVER", "must-not-be-seen", 1);
  serving_make(&self, config);
  serving_file(&self, "key", "open-sesame-4711\n");
  serving_folder(&self, "out");
  serving_start(&self);
  *state = &self;
  return 0;
}

static int end(void **state) {
  serving *self = *state;
  if (self->server.pid) serving_end(self);
  return 0;
}

/* Waits until the last process that needs it has removed it. */
static void expect_no_file(const char *pattern) {
  glob_t found;
  uint64_t until = child_now_ms() + 60000;
  while (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
    globfree(&found);
    if (child_now_ms() > until) fail_msg("%s is still there", pattern);
    poll(NULL, 0, 5);
  }
}

/* Waits for the progress of a tool whose message is a process id. */
static long pid_told(serving *self, const char *tool) {
  char token[64];
  snprintf(token, sizeof token, "\"progressToken\":\"%s\"", tool);
  const char *line = child_line_with(self->server.out, token);
  const char *message = strstr(line, "\"message\":\"");
  assert_non_null(message);
  long pid = strtol(message + strlen("\"message\":\""), NULL, 10);
  assert_true(pid > 1);
  return pid;
}

static void the_environment_is_clean(void **state) {
  const char *answer = serving_call(*state, "env", "{}");
  expect_in(answer, "GIVEN=yes");
  expect_in(answer, "KEY=open-sesame-4711");
  expect_in(answer, "PATH=");
  expect_not_in(answer, "must-not-be-seen");
  expect_not_in(answer, "HOME=");
}

static void a_failure_shows_the_end_of_stderr_without_secrets(void **state) {
  const char *answer = serving_call(*state, "fails", "{}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "fails ended with exit status 3");
  expect_in(answer, "part\\n");
  expect_in(answer, "key is");
  expect_not_in(answer, "open-sesame-4711");
  expect_not_in(serving_call(*state, "hides", "{}"), "hidden");
  expect_in(serving_call(*state, "dies", "{}"), "was ended by signal 11");
}

static void a_flood_is_cut_with_a_notice(void **state) {
  const char *answer = serving_call(*state, "floods", "{}");
  expect_in(answer, "The output was cut after 1000 bytes");
  assert_true(strlen(answer) < 4000);
  answer = serving_call(*state, "floods_json", "{}");
  expect_in(answer, "floods_json printed more than 1000 bytes of JSON (output_bytes)");
  expect_in(answer, "\"isError\":true");
  answer = serving_call(*state, "floods_errors", "{}");
  expect_in(answer, "took longer than 300 ms");
  assert_true(strlen(answer) < 8000);
}

static void silence_and_slowness_have_limits(void **state) {
  expect_in(serving_call(*state, "silent", "{}"), "it wrote nothing for 400 ms (idle_ms)");
}

static void cancel(serving *self, int id) {
  char message[160];
  snprintf(message, sizeof message,
           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
           "\"params\":{\"requestId\":%d}}\n",
           id);
  child_send(self->server.in, message);
}

/* The process id that a program has left in a file; 0: it had not come so far. */
static long pid_left(const serving *self, const char *name) {
  char path[512];
  long pid = 0;
  serving_path(self, name, path, sizeof path);
  FILE *file = fopen(path, "r");
  if (file && fscanf(file, "%ld", &pid) != 1) pid = 0;
  if (file) fclose(file);
  unlink(path);
  return pid;
}

/* A deadline that comes before the program has begun to ignore anything says nothing: then once more. */
static void expect_killed_at_the_deadline(serving *self) {
  long pid = 0;
  for (int i = 0; i < 5 && !pid; i++) {
    expect_in(serving_call(self, "late", "{}"), "took longer than 1000 ms (deadline_ms)");
    pid = pid_left(self, "out/late");
  }
  assert_true(pid > 1);
  expect_gone(pid);
}

/* When it has begun to ignore it; and at a deadline. */
static void a_program_that_ignores_term_is_killed(void **state) {
  int id = serving_send_call(*state, "stubborn", "{}");
  long pid = pid_told(*state, "stubborn");
  cancel(*state, id);
  expect_gone(pid);
  expect_killed_at_the_deadline(*state);
}

static void cancelling_ends_the_whole_group(void **state) {
  serving *self = *state;
  int id = serving_send_call(self, "sleeps", "{}");
  long pid = pid_told(self, "sleeps");
  cancel(self, id);
  expect_gone(pid);
  expect_in(serving_call(self, "quick", "{}"), "hello");
}

static void a_program_that_leaves_others_behind_still_ends(void **state) {
  int id = serving_send_call(*state, "detaches", "{}");
  pid_told(*state, "detaches");
  expect_not_in(serving_answer(*state, id), "isError");
}

static void what_is_no_text_is_told(void **state) {
  expect_in(serving_call(*state, "binary", "{}"), "bytes that are no text");
}

static void json_becomes_structured_content(void **state) {
  expect_in(serving_call(*state, "json", "{\"t\":\"{\\\"n\\\":1}\"}"),
            "\"structuredContent\":{\"n\":1}");
  expect_in(serving_call(*state, "json", "{\"t\":\"{oops\"}"), "did not print JSON");
  expect_in(serving_call(*state, "json", "{\"t\":\"{\\\"n\\\":\\\"x\\\"}\"}"),
            "does not allow: output.n: expected integer");
}

static void calls_wait_for_their_turn_and_too_many_are_told(void **state) {
  serving *self = *state;
  int running[] = {serving_send_call(self, "sleeps", "{}"),
                   serving_send_call(self, "sleeps", "{}")};
  for (int i = 0; i < 2; i++) pid_told(self, "sleeps");
  int third = serving_send_call(self, "quick", "{}"),
      fourth = serving_send_call(self, "quick", "{}");
  expect_in(serving_answer(self, fourth), "the server is busy");
  cancel(self, running[0]);
  expect_in(serving_answer(self, third), "hello");
  cancel(self, running[1]);
}

/* Last: it ends the server. */
static void nothing_outlives_the_server(void **state) {
  serving *self = *state;
  serving_send_call(self, "detaches", "{}");
  long detached = pid_told(self, "detaches");
  serving_send_call(self, "sleeps", "{}");
  long sleeping = pid_told(self, "sleeps");
  assert_int_equal(kill(self->server.pid, SIGTERM), 0);
  assert_int_equal(child_end(&self->server), 0);
  expect_gone(detached);
  expect_gone(sleeping);
  child_remove_folder(self->folder);
  self->server.pid = 0;
}

/* Whoever is still there, with all that hostile programs do to stay. */
static void a_killed_server_leaves_nothing_behind(void **state) {
  static serving self;
  (void)state;
  serving_make(&self,
               "{\"tools\":{\n"
               " \"waits\":{\"run\":[\"sh\",\"-c\",\"trap '' TERM HUP INT; echo progress: 1 $$ >&2;"
               " while :; do sleep 0.05; done\"],\"progress\":true},\n"
               " \"hides\":{\"run\":[\"sh\",\"-c\",\"(setsid sh -c 'trap \\\"\\\" TERM HUP;"
               " (setsid sleep 1000 & echo progress: 1 $! >&2); sleep 1000' &) ; sleep 1000\"],"
               "\"progress\":true}}}");
  setenv("TMPDIR", self.folder, 1);
  serving_start(&self);
  serving_send_call(&self, "waits", "{}");
  long waiting = pid_told(&self, "waits");
  serving_send_call(&self, "hides", "{}");
  long hidden = pid_told(&self, "hides");
  assert_int_equal(kill(self.server.pid, SIGKILL), 0);
  assert_int_equal(child_end(&self.server), -SIGKILL);
  expect_gone(waiting);
  expect_gone(hidden);
  char pattern[300];
  snprintf(pattern, sizeof pattern, "%s/idem-*", self.folder);
  expect_no_file(pattern);
  child_remove_folder(self.folder);
}

/* Many at a time need as many hands; afterwards most of them go. */
static void no_more_hands_stay_than_a_quiet_server_needs(void **state) {
  enum { CALLS = 40, STAY = 32 };
  static serving self;
  int ids[CALLS];
  (void)state;
  serving_make(&self, "{\"concurrency\":40,\"tools\":{\"waits\":{\"run\":[\"sh\",\"-c\","
                      "\"echo progress: 1 >&2; exec sleep 1000\"],\"progress\":true},"
                      "\"quick\":{\"run\":[\"echo\",\"hello\"]}}}");
  serving_start(&self);
  for (int i = 0; i < CALLS; i++) ids[i] = serving_send_call(&self, "waits", "{}");
  for (int i = 0; i < CALLS; i++) child_line_with(self.server.out, "notifications/progress");
  assert_int_equal(processes_below_us().runners, CALLS);
  for (int i = 0; i < CALLS; i++) cancel(&self, ids[i]);
  uint64_t until = child_now_ms() + 60000;
  while (processes_below_us().runners > STAY && child_now_ms() < until) poll(NULL, 0, 5);
  assert_int_equal(processes_below_us().runners, STAY);
  expect_in(serving_call(&self, "quick", "{}"), "hello");
  serving_end(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_environment_is_clean),
      cmocka_unit_test(a_failure_shows_the_end_of_stderr_without_secrets),
      cmocka_unit_test(a_flood_is_cut_with_a_notice),
      cmocka_unit_test(silence_and_slowness_have_limits),
      cmocka_unit_test(a_program_that_ignores_term_is_killed),
      cmocka_unit_test(cancelling_ends_the_whole_group),
      cmocka_unit_test(a_program_that_leaves_others_behind_still_ends),
      cmocka_unit_test(what_is_no_text_is_told),
      cmocka_unit_test(json_becomes_structured_content),
      cmocka_unit_test(calls_wait_for_their_turn_and_too_many_are_told),
      cmocka_unit_test(nothing_outlives_the_server),
      cmocka_unit_test(a_killed_server_leaves_nothing_behind),
      cmocka_unit_test(no_more_hands_stay_than_a_quiet_server_needs),
  };
  return cmocka_run_group_tests(tests, start, end);
}
