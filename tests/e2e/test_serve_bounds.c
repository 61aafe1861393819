/* test_serve_bounds.c - what bounds a tool has is the file's to say, and the file is not the tool's to
 * write: neither at the start nor by a change while it is served. */
#include "serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char program[] = IDEM_BIN_DIR "/idem";

static const char first[] =
    "{\"tools\":{\"a\":{\"run\":[\"echo\",\"first\"]},\n"
    " \"wide\":{\"run\":[\"echo\",\"wide\"],\"allow\":{\"net\":true,\"write\":[\"out\"]}},\n"
    " \"open\":{\"run\":[\"echo\",\"open\"],\"confine\":false},\n"
    " \"data\":{\"query\":\"select 1\",\"database\":\"data.db\"}}}";

static void make(serving *self, const char *config) {
  char path[512];
  serving_make(self, config);
  serving_path(self, "out", path, sizeof path);
  assert_int_equal(mkdir(path, 0755), 0);
  serving_file(self, "data.db", "");
  serving_file(self, "key", "swordfish");
}

static void unmake(const serving *self) {
  char command[512];
  snprintf(command, sizeof command, "rm -rf -- '%s'", self->folder);
  assert_int_equal(system(command), 0); /* NOLINT: the words are ours */
}

/* ---------------------------------------------------------------------- at the start */

static void expect_checked(const serving *self, int status, const char *wanted) {
  char path[512];
  serving_path(self, "idem.json", path, sizeof path);
  child checked = CHILD(program, "serve", "--check", path);
  const char *said = status ? child_rest(checked.err) : child_rest(checked.out);
  expect_in(said, wanted);
  assert_int_equal(child_end(&checked), status);
}

static void expect_refused(const char *write, const char *more, const char *wanted) {
  char config[2048];
  static serving self;
  snprintf(config, sizeof config,
           "{\"tools\":{\"t\":{\"run\":[\"true\"],\"allow\":{\"write\":[\"%s\"]}}%s}}", write,
           more);
  make(&self, config);
  serving_file(&self, "out/tool", "#!/bin/sh\necho secret\n");
  char path[512], link[512];
  serving_path(&self, "out/tool", path, sizeof path);
  assert_int_equal(chmod(path, 0755), 0);
  serving_path(&self, "link", link, sizeof link);
  assert_int_equal(symlink(self.folder, link), 0);
  expect_checked(&self, wanted ? 1 : 0, wanted ? wanted : "fine");
  unmake(&self);
}

static void a_configuration_that_its_tool_may_write_is_refused(void **state) {
  static const char *const folders[] = {".", "..", "idem.json", "link", "/tmp"};
  (void)state;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    expect_refused(folders[i], "", "tool t: allow: write: /");
  expect_refused(".", "", "holds this configuration, by which the program could free itself");
  expect_refused("/", "", "reaches other processes through /proc");
  expect_refused("/proc/self", "", "reaches other processes through /proc");
  expect_refused("out", "", NULL);
}

/* The faults behind it are told, too. */
static void a_program_that_is_not_there_is_one_fault_of_several(void **state) {
  static const char query[] = ",\"q\":{\"query\":\"nonsense\",\"database\":\"data.db\"}";
  char more[512];
  (void)state;
  snprintf(more, sizeof more, ",\"u\":{\"run\":[\"./nothing\"],\"confine\":false}%s", query);
  expect_refused("out", more, "cannot be prepared");
  snprintf(more, sizeof more, ",\"u\":{\"run\":[\"out/tool\"],\"cwd\":\"no\",\"confine\":false}%s",
           query);
  expect_refused("out", more, "cannot be prepared");
}

static void a_program_that_may_do_more_is_not_another_s_to_write(void **state) {
  (void)state;
  expect_refused("out", ",\"u\":{\"run\":[\"out/tool\"],\"confine\":false}",
                 "holds the program of u, which may do more");
  expect_refused("out", ",\"u\":{\"run\":[\"out/tool\"],\"allow\":{\"net\":true}}",
                 "holds the program of u, which may do more");
  expect_refused("out", ",\"u\":{\"run\":[\"out/tool\"]}", NULL);
  expect_refused("out", ",\"u\":{\"run\":[\"sh\",\"-e\",\"out/tool\"],\"confine\":false}",
                 "holds the program of u, which may do more");
  expect_refused("out", ",\"u\":{\"run\":[\"sh\",\"out/tool\"]}", NULL);
  expect_refused("out", ",\"u\":{\"run\":[\"cat\",\"out/tool\"],\"confine\":false}", NULL);
  expect_refused("out",
                 ",\"u\":{\"run\":[\"true\"],\"env\":{\"K\":{\"command\":[\"./out/tool\"]}}}",
                 "holds the command of a secret, which is not confined");
}

/* ----------------------------------------------------------------------- by a change */

static int start(void **state) {
  static serving self;
  make(&self, first);
  serving_start(&self);
  *state = &self;
  return 0;
}

static int end(void **state) {
  serving *self = *state;
  close(self->server.in);
  unmake(self);
  return 0;
}

/* The first configuration, with `part` in place of the definition of `name`, or beside them. */
static void change(const serving *self, const char *name, const char *part) {
  static const char *const others[][2] = {
      {"a", "{\"run\":[\"echo\",\"first\"]}"},
      {"wide", "{\"run\":[\"echo\",\"wide\"],\"allow\":{\"net\":true,\"write\":[\"out\"]}}"},
      {"open", "{\"run\":[\"echo\",\"open\"],\"confine\":false}"},
      {"data", "{\"query\":\"select 1\",\"database\":\"data.db\"}"}};
  char config[4096], from[512], to[512];
  int len = snprintf(config, sizeof config, "{\"tools\":{\"%s\":%s", name, part);
  for (size_t i = 0; i < 4; i++)
    if (strcmp(others[i][0], name) != 0)
      len += snprintf(config + len, sizeof config - (size_t)len, ",\"%s\":%s", others[i][0],
                      others[i][1]);
  snprintf(config + len, sizeof config - (size_t)len, "}}");
  serving_file(self, "new~", config);
  serving_path(self, "new~", from, sizeof from);
  serving_path(self, "idem.json", to, sizeof to);
  assert_int_equal(rename(from, to), 0);
}

static void a_reload_that_gives_more_is_refused(void **state) {
  static const struct {
    const char *name, *part, *wanted;
  } more[] = {
      {"a", "{\"run\":[\"id\"],\"confine\":false}", "a is not confined"},
      {"a", "{\"run\":[\"id\"],\"allow\":{\"net\":true}}", "a may use the network"},
      {"a", "{\"run\":[\"id\"],\"allow\":{\"write\":[\"out\"]}}", "a may write out"},
      {"a", "{\"run\":[\"id\"],\"allow\":{\"read\":[\"/var\"]}}", "a may read /var"},
      {"a", "{\"run\":[\"id\"],\"cwd\":\"/var\"}", "a may read /var"},
      {"a", "{\"args\":{\"f\":\"string\"},\"run\":[\"cat\",\"{f}\"],\"inside\":{\"f\":\"/var\"}}",
       "a may read /var"},
      {"a", "{\"run\":[\"env\"],\"env\":{\"K\":{\"file\":\"key\"}}}", "a is given the secret K"},
      {"a", "{\"run\":[\"env\"],\"pass_env\":[\"HOME\"]}", "a is given the variable HOME"},
      {"wide", "{\"run\":[\"id\"],\"allow\":{\"write\":[\"out\",\"/var/tmp\"]}}",
       "wide may write [redacted]"},
      {"open", "{\"run\":[\"id\"],\"confine\":false}",
       "open is not confined and runs something else"},
      {"new", "{\"run\":[\"id\"],\"confine\":false}", "new is not confined"},
      {"data", "{\"query\":\"create table t(x)\",\"database\":\"data.db\",\"write\":true}",
       "data may write data.db"},
      {"new",
       "{\"http\":{\"url\":\"https://example.org/\",\"headers\":{\"K\":{\"file\":\"key\"}}}}",
       "new sends a secret to https://example.org"},
  };
  serving *self = *state;
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    change(self, more[i].name, more[i].part);
    expect_in(child_line_with(self->server.err, "a tool is given more than before"),
              more[i].wanted);
    child_line_with(self->server.err, "a reload that gives tools more is refused");
    child_line_with(self->server.err, "the old configuration stays in force");
    expect_in(serving_call(self, "a", "{}"), "first\\n");
  }
}

static void a_tool_cannot_be_given_the_configuration_by_a_reload(void **state) {
  serving *self = *state;
  change(self, "a", "{\"run\":[\"id\"],\"allow\":{\"write\":[\".\"]}}");
  child_line_with(self->server.err, "holds this configuration");
  child_line_with(self->server.err, "the old configuration stays in force");
}

static void a_new_command_of_a_secret_is_not_run_by_a_reload(void **state) {
  serving *self = *state;
  char path[512];
  change(self, "a",
         "{\"run\":[\"id\"],\"env\":{\"K\":{\"command\":[\"sh\",\"-c\",\"touch ran; echo k\"]}}}");
  child_line_with(self->server.err, "sh: is a new command, which a reload does not run");
  child_line_with(self->server.err, "the old configuration stays in force");
  serving_path(self, "ran", path, sizeof path);
  assert_int_equal(access(path, F_OK), -1);
}

static void a_reload_that_gives_the_same_or_less_is_served(void **state) {
  serving *self = *state;
  change(self, "a", "{\"run\":[\"echo\",\"second\"],\"cwd\":\"out\"}");
  child_line_with(self->server.err, "configuration reloaded");
  expect_in(serving_call(self, "a", "{}"), "second\\n");
  change(self, "wide", "{\"run\":[\"echo\",\"narrow\"]}");
  child_line_with(self->server.err, "configuration reloaded");
  expect_in(serving_call(self, "wide", "{}"), "narrow\\n");
  change(self, "new", "{\"run\":[\"echo\",\"new\"]}"); /* and "wide" has its width again */
  expect_in(child_line_with(self->server.err, "a tool is given more than before"),
            "wide may use the network");
  child_line_with(self->server.err, "the old configuration stays in force");
}

static void a_flag_allows_it_and_the_log_says_what(void **state) {
  char path[512];
  static serving self;
  (void)state;
  make(&self, first);
  serving_path(&self, "idem.json", path, sizeof path);
  self.server =
      CHILD(program, "serve", path, "--reload-may-loosen", "--stdio", "--profile", "jsonrpc");
  child_line_with(self.server.err, "listening on stdio");
  change(&self, "a",
         "{\"run\":[\"sh\",\"-c\",\"echo $K\"],\"confine\":false,"
         "\"env\":{\"K\":{\"command\":[\"echo\",\"kk\"]}}}");
  expect_in(child_line_with(self.server.err, "INFO  a tool is given more than before"),
            "a is given the secret K");
  child_line_with(self.server.err, "configuration reloaded");
  child_send(self.server.in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n");
  expect_in(child_line(self.server.out), "kk");
  assert_int_equal(child_end(&self.server), 0);
  unmake(&self);
}

int main(void) {
  const struct CMUnitTest alone[] = {
      cmocka_unit_test(a_configuration_that_its_tool_may_write_is_refused),
      cmocka_unit_test(a_program_that_is_not_there_is_one_fault_of_several),
      cmocka_unit_test(a_program_that_may_do_more_is_not_another_s_to_write),
      cmocka_unit_test(a_flag_allows_it_and_the_log_says_what),
  };
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reload_that_gives_more_is_refused),
      cmocka_unit_test(a_tool_cannot_be_given_the_configuration_by_a_reload),
      cmocka_unit_test(a_new_command_of_a_secret_is_not_run_by_a_reload),
      cmocka_unit_test(a_reload_that_gives_the_same_or_less_is_served),
  };
  int failed = cmocka_run_group_tests(alone, NULL, NULL);
  return failed + cmocka_run_group_tests(tests, start, end);
}
