/* test_serve_reload.c - a configuration that changes while it is served, and files that come, change
 * and go. What is told, what is not, and what calls under way see of it. */
#include "serving.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char first[] =
    "{\"tools\":{\"say\":{\"args\":{\"w\":\"string\"},\"run\":[\"echo\",\"one\",\"{w}\"]},\n"
    " \"wait\":{\"run\":[\"sh\",\"-c\",\"cat fifo; echo old\"]}},\n"
    " \"resources\":{\"docs\":{\"directory\":\"docs\",\"include\":[\"*.md\"]},"
    "\"one\":{\"file\":\"one.txt\"}},\n"
    " \"prompts\":{\"p\":{\"text\":\"hello\"}}}";

static int start(void **state) {
  static serving self;
  char path[512];
  serving_make(&self, first);
  serving_path(&self, "docs", path, sizeof path);
  assert_int_equal(mkdir(path, 0755), 0);
  serving_file(&self, "docs/a.md", "a");
  serving_file(&self, "one.txt", "1");
  serving_path(&self, "fifo", path, sizeof path);
  assert_int_equal(mkfifo(path, 0600), 0);
  serving_start(&self);
  *state = &self;
  return 0;
}

static int end(void **state) {
  static const char *const left[] = {"docs/a.md", "docs/deep/b.md", "docs/deep", "docs"};
  char path[512];
  for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
    serving_path(*state, left[i], path, sizeof path);
    remove(path);
  }
  serving_end(*state);
  return 0;
}

/* As editors do: a new file takes the name of the old one. */
static void rewrite(const serving *self, const char *name, const char *text) {
  char from[512], to[512];
  serving_file(self, "new~", text);
  serving_path(self, "new~", from, sizeof from);
  serving_path(self, name, to, sizeof to);
  assert_int_equal(rename(from, to), 0);
}

static const char *next_notification(const serving *self) {
  return child_line_with(self->server.out, "\"method\":\"notifications/");
}

/* Nothing but the answer may come: a notification before it would be read first. */
static void expect_quiet(serving *self) {
  for (int i = 0; i < 3; i++) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"id\":%d,", serving_send(self, "ping", "{}"));
    expect_in(child_line(self->server.out), wanted);
  }
}

static void a_changed_file_is_served_and_told_of(void **state) {
  serving *self = *state;
  rewrite(self, "idem.json",
          "{\"tools\":{\"say\":{\"args\":{\"w\":\"string\"},\"run\":[\"echo\",\"one\",\"{w}\"]},\n"
          " \"more\":{\"run\":[\"echo\",\"new\"]},"
          " \"wait\":{\"run\":[\"sh\",\"-c\",\"cat fifo; echo old\"]}},\n"
          " \"resources\":{\"docs\":{\"directory\":\"docs\",\"include\":[\"*.md\"]},"
          "\"one\":{\"file\":\"one.txt\"}},\n"
          " \"prompts\":{\"p\":{\"text\":\"hello\"}}}");
  child_line_with(self->server.err, "configuration reloaded");
  expect_in(next_notification(self), "notifications/tools/list_changed");
  expect_quiet(self); /* neither resources nor prompts have changed */
  expect_in(serving_call(self, "more", "{}"), "new\\n");
}

static void a_changed_command_behind_the_same_definition_is_not_news(void **state) {
  serving *self = *state;
  rewrite(self, "idem.json",
          "{\"tools\":{\"say\":{\"args\":{\"w\":\"string\"},\"run\":[\"echo\",\"two\",\"{w}\"]},\n"
          " \"more\":{\"run\":[\"echo\",\"new\"]},"
          " \"wait\":{\"run\":[\"sh\",\"-c\",\"cat fifo; echo old\"]}},\n"
          " \"resources\":{\"docs\":{\"directory\":\"docs\",\"include\":[\"*.md\"]},"
          "\"one\":{\"file\":\"one.txt\"}},\n"
          " \"prompts\":{\"p\":{\"text\":\"hello\"}}}");
  child_line_with(self->server.err, "configuration reloaded");
  expect_quiet(self);
  expect_in(serving_call(self, "say", "{\"w\":\"x\"}"), "two x\\n");
}

static void a_faulty_file_is_told_of_and_changes_nothing(void **state) {
  serving *self = *state;
  serving_file(self, "idem.json", "{\"tools\": {\n  \"say\": {\"rum\": [\"echo\"]}}}");
  const char *line = child_line_with(self->server.err, "fault in the configuration");
  expect_in(line, "idem.json:2:11:");
  expect_in(line, "did you mean");
  child_line_with(self->server.err, "the old configuration stays in force");
  expect_quiet(self);
  expect_in(serving_call(self, "say", "{\"w\":\"x\"}"), "two x\\n");
  serving_file(self, "idem.json", "{\"tools\": ");
  expect_in(child_line_with(self->server.err, "fault in the configuration"), "is not JSON");
  child_line_with(self->server.err, "the old configuration stays in force");
  expect_in(serving_call(self, "more", "{}"), "new\\n");
}

static void calls_under_way_end_under_the_old_definitions(void **state) {
  serving *self = *state;
  char path[512];
  int id = serving_send_call(self, "wait", "{}");
  expect_in(serving_call(self, "say", "{\"w\":\"x\"}"), "two x\\n"); /* the other one runs now */
  rewrite(self, "idem.json",
          "{\"tools\":{\"wait\":{\"run\":[\"echo\",\"changed\"]}},"
          "\"prompts\":{\"q\":{\"text\":\"bye\"}}}");
  child_line_with(self->server.err, "configuration reloaded");
  expect_in(serving_call(self, "wait", "{}"), "changed\\n");
  serving_path(self, "fifo", path, sizeof path);
  serving_file(self, "fifo", "fed ");
  expect_in(serving_answer(self, id), "fed old\\n");
  expect_in(serving_ask(self, "tools/call", "{\"name\":\"say\",\"arguments\":{\"w\":\"x\"}}"),
            "\"error\"");
}

static void every_list_that_changed_is_told_of(void **state) {
  serving *self = *state;
  bool tools = false, resources = false, prompts = false;
  rewrite(self, "idem.json", first);
  child_line_with(self->server.err, "configuration reloaded");
  while (!tools || !resources || !prompts) {
    const char *line = next_notification(self);
    tools = tools || strstr(line, "tools/list_changed");
    resources = resources || strstr(line, "resources/list_changed");
    prompts = prompts || strstr(line, "prompts/list_changed");
  }
  expect_in(serving_ask(self, "prompts/list", "{}"), "\"name\":\"p\"");
}

static void a_hangup_reads_it_again(void **state) {
  serving *self = *state;
  kill(self->server.pid, SIGHUP);
  child_line_with(self->server.err, "SIGHUP");
  child_line_with(self->server.err, "configuration reloaded");
  expect_quiet(self);
}

static void a_subscriber_hears_of_a_changed_file(void **state) {
  serving *self = *state;
  expect_in(serving_ask(self, "resources/subscribe", "{\"uri\":\"idem://docs/a.md\"}"), "{}");
  expect_in(serving_ask(self, "resources/subscribe", "{\"uri\":\"idem://one\"}"), "{}");
  serving_file(self, "docs/a.md", "a changed");
  expect_in(next_notification(self), "\"uri\":\"idem://docs/a.md\"");
  rewrite(self, "one.txt", "another");
  expect_in(next_notification(self), "\"uri\":\"idem://one\"");
  expect_in(serving_ask(self, "resources/read", "{\"uri\":\"idem://one\"}"), "another");
}

static void files_that_come_and_go_change_the_list(void **state) {
  serving *self = *state;
  char path[512];
  serving_path(self, "docs/deep", path, sizeof path);
  assert_int_equal(mkdir(path, 0755), 0);
  serving_file(self, "docs/deep/b.md", "b");
  expect_in(next_notification(self), "resources/list_changed");
  expect_in(serving_ask(self, "resources/list", "{}"), "idem://docs/deep/b.md");
  serving_path(self, "docs/deep/b.md", path, sizeof path);
  assert_int_equal(unlink(path), 0);
  expect_in(next_notification(self), "resources/list_changed");
  expect_not_in(serving_ask(self, "resources/list", "{}"), "deep/b.md");
}

static void a_hundred_changes_leave_the_last_in_force(void **state) {
  serving *self = *state;
  char config[256];
  for (int i = 0; i < 100; i++) {
    snprintf(config, sizeof config,
             i % 3 != 1 ? "{\"tools\":{\"n\":{\"run\":[\"echo\",\"n%d\"]}}}" : "{%d", i);
    rewrite(self, "idem.json", config);
  }
  kill(self->server.pid, SIGHUP); /* whatever was noticed before: this one sees the last */
  child_line_with(self->server.err, "SIGHUP");
  child_line_with(self->server.err, "configuration reloaded");
  rewrite(self, "idem.json", "{\"tools\":{\"last\":{\"run\":[\"echo\",\"last\"]}}}");
  while (!strstr(serving_ask(self, "tools/list", "{}"), "\"last\"")) next_notification(self);
  expect_in(serving_call(self, "last", "{}"), "last\\n");
}

/* The folder of a link never changes when what it leads to does. */
static void a_link_is_followed_to_the_file_it_leads_to(void **state) {
  (void)state;
  serving linked;
  char real[512], link[512];
  serving_make(&linked, "{}");
  serving_path(&linked, "idem.json", link, sizeof link);
  serving_path(&linked, "real", real, sizeof real);
  assert_int_equal(mkdir(real, 0755), 0);
  serving_file(&linked, "real/config.json", "{\"tools\":{}}");
  assert_int_equal(unlink(link), 0);
  assert_int_equal(symlink("real/config.json", link), 0);
  serving_start(&linked);
  serving_file(&linked, "real/config.json", "{\"tools\":{\"n\":{\"run\":[\"echo\",\"new\"]}}}");
  child_line_with(linked.server.err, "configuration reloaded");
  expect_in(serving_call(&linked, "n", "{}"), "new\\n"); /* the first program there is */
  serving_path(&linked, "real/config.json", link, sizeof link);
  assert_int_equal(unlink(link), 0);
  assert_int_equal(rmdir(real), 0);
  serving_end(&linked);
}

/* The new folder may well have the inode of the old one. */
static void a_folder_made_anew_is_watched_again(void **state) {
  (void)state;
  serving self;
  char folder[512], file[512];
  serving_make(&self, "{\"resources\":{\"docs\":{\"directory\":\"docs\"}}}");
  serving_path(&self, "docs", folder, sizeof folder);
  assert_int_equal(mkdir(folder, 0755), 0);
  serving_path(&self, "docs/deep", folder, sizeof folder);
  assert_int_equal(mkdir(folder, 0755), 0);
  serving_start(&self);
  assert_int_equal(rmdir(folder), 0);
  assert_int_equal(mkdir(folder, 0755), 0);
  serving_file(&self, "docs/deep/one", "1");
  expect_in(next_notification(&self), "resources/list_changed");
  serving_file(&self, "docs/deep/two", "2");
  expect_in(next_notification(&self), "resources/list_changed");
  expect_in(serving_ask(&self, "resources/list", "{}"), "idem://docs/deep/two");
  static const char *const left[] = {"docs/deep/one", "docs/deep/two", "docs/deep", "docs"};
  for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
    serving_path(&self, left[i], file, sizeof file);
    assert_int_equal(remove(file), 0);
  }
  serving_end(&self);
}

static void more_folders_than_can_be_watched_are_told_of(void **state) {
  (void)state;
  enum { FOLDERS = 512 }; /* and docs, and the configuration's */
  serving self;
  char name[32], path[512];
  serving_make(&self, "{\"resources\":{\"docs\":{\"directory\":\"docs\"}}}");
  for (int i = 0; i <= FOLDERS; i++) {
    snprintf(name, sizeof name, i ? "docs/%d" : "docs", i);
    serving_path(&self, name, path, sizeof path);
    assert_int_equal(mkdir(path, 0755), 0);
  }
  serving_start(&self);
  expect_in(child_line_with(self.server.err, "changes of some files will not be noticed"),
            "512 folders are watched already");
  serving_file(&self, "idem.json", "{\"tools\":{\"n\":{\"run\":[\"echo\",\"new\"]}}}");
  child_line_with(self.server.err, "configuration reloaded");
  for (int i = FOLDERS; i >= 0; i--) {
    snprintf(name, sizeof name, i ? "docs/%d" : "docs", i);
    serving_path(&self, name, path, sizeof path);
    assert_int_equal(rmdir(path), 0);
  }
  serving_end(&self);
}

/* ------------------------------------------------------------- files that never rest */

/* Two files in turn: the kernel makes one of changes that are alike. Ends with us at the latest. */
static pid_t write_for_ever(const serving *self, const char *one, const char *other) {
  char paths[2][512];
  serving_path(self, one, paths[0], sizeof paths[0]);
  serving_path(self, other, paths[1], sizeof paths[1]);
  pid_t writer = fork();
  assert_true(writer >= 0);
  if (writer > 0) return writer;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_range(3, ~0u, 0); /* the input of servers, which would not end */
  int fds[2] = {open(paths[0], O_WRONLY | O_CREAT, 0600), open(paths[1], O_WRONLY | O_CREAT, 0600)};
  for (size_t i = 0; pwrite(fds[i % 2], "x", 1, 0) == 1; i++) continue;
  _exit(1);
}

static void end_writer(pid_t writer) {
  int status;
  assert_int_equal(kill(writer, SIGKILL), 0);
  assert_int_equal(waitpid(writer, &status, 0), writer);
  assert_true(WIFSIGNALED(status)); /* it was still writing */
}

static uint64_t worked_ms(pid_t pid) {
  char path[64], line[128] = "";
  snprintf(path, sizeof path, "/proc/%ld/schedstat", (long)pid);
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  assert_non_null(fgets(line, sizeof line, file));
  fclose(file);
  return strtoull(line, NULL, 10) / 1000000u;
}

/* More is written into docs than anyone could hear of. What changes beside it is noticed all the
 * same, requests are answered meanwhile, and nearly no time is spent on it. */
static void a_file_that_is_always_written_holds_up_nobody(void **state) {
  (void)state;
  serving self;
  char path[512];
  serving_make(&self, "{\"resources\":{\"docs\":{\"directory\":\"docs\"}}}");
  serving_path(&self, "docs", path, sizeof path);
  assert_int_equal(mkdir(path, 0755), 0);
  serving_file(&self, "docs/a.md", "a");
  serving_start(&self);
  expect_in(serving_ask(&self, "resources/subscribe", "{\"uri\":\"idem://docs/a.md\"}"), "{}");
  uint64_t began = child_now_ms(), worked = worked_ms(self.server.pid);
  pid_t writer = write_for_ever(&self, "docs/a.md", "docs/.log");
  expect_in(next_notification(&self), "\"uri\":\"idem://docs/a.md\"");
  for (int i = 0; i < 100; i++) serving_ask(&self, "ping", "{}");
  rewrite(&self, "idem.json",
          "{\"resources\":{\"docs\":{\"directory\":\"docs\"}},"
          "\"tools\":{\"n\":{\"run\":[\"echo\",\"new\"]}}}");
  child_line_with(self.server.err, "configuration reloaded");
  expect_in(serving_call(&self, "n", "{}"), "new\\n");
  worked = worked_ms(self.server.pid) - worked;
  assert_true(worked < 100 + (child_now_ms() - began) / 4);
  close(self.server.in);
  self.server.in = -1;
  assert_int_equal(child_end(&self.server), 0);
  end_writer(writer);
  static const char *const left[] = {"docs/a.md", "docs/.log", "docs"};
  for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
    serving_path(&self, left[i], path, sizeof path);
    assert_int_equal(remove(path), 0);
  }
  child_remove_folder(self.folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_changed_file_is_served_and_told_of),
      cmocka_unit_test(a_changed_command_behind_the_same_definition_is_not_news),
      cmocka_unit_test(a_faulty_file_is_told_of_and_changes_nothing),
      cmocka_unit_test(calls_under_way_end_under_the_old_definitions),
      cmocka_unit_test(every_list_that_changed_is_told_of),
      cmocka_unit_test(a_hangup_reads_it_again),
      cmocka_unit_test(a_subscriber_hears_of_a_changed_file),
      cmocka_unit_test(files_that_come_and_go_change_the_list),
      cmocka_unit_test(a_hundred_changes_leave_the_last_in_force),
      cmocka_unit_test(a_link_is_followed_to_the_file_it_leads_to),
      cmocka_unit_test(a_folder_made_anew_is_watched_again),
      cmocka_unit_test(more_folders_than_can_be_watched_are_told_of),
      cmocka_unit_test(a_file_that_is_always_written_holds_up_nobody),
  };
  return cmocka_run_group_tests(tests, start, end);
}
