/* test_serve_real.c - the programs people put behind tools: grep, jq, git, sqlite3 and node, confined as they
 * are by default. Each must be there: scripts/setup test installs them. */
#include "serving.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const char config[] =
    "{\"tools\":{\n"
    " \"grep\":{\"args\":{\"text\":\"string\",\"context?\":\"integer\"},\"exit_ok\":[0,1],\n"
    "  \"run\":[\"grep\",\"-n\",[\"-C\",\"{context}\"],\"--\",\"{text}\",\"poem.txt\"]},\n"
    " \"jq\":{\"args\":{\"filter\":\"string\",\"json\":\"string\"},\"output\":\"json\",\n"
    "  \"run\":[\"jq\",\"-c\",\"{filter}\"],\"stdin\":\"{json}\"},\n"
    " \"git_log\":{\"args\":{\"count?\":\"integer\"},\"cwd\":\"project\",\n"
    "  \"run\":[\"git\",\"log\",\"--format=%s by %an\",[\"-n\",\"{count}\"]]},\n"
    " \"git_show\":{\"args\":{\"file\":\"string\"},\"cwd\":\"project\","
    "\"run\":[\"git\",\"show\",\"HEAD:{file}\"]},\n"
    " \"git_commit\":{\"args\":{\"message\":\"string\"},\"cwd\":\"project\","
    "\"allow\":{\"write\":[\"project\"]},\n"
    "  \"run\":[\"git\",\"-c\",\"user.name=Ada\",\"-c\",\"user.email=ada@example.org\",\"commit\","
    "\"-q\",\"--allow-empty\",\"-m\",\"m: {message}\"]},\n"
    " \"sqlite\":{\"args\":{\"sql\":\"string\"},\"allow\":{\"write\":[\"data\"]},\n"
    "  \"run\":[\"sqlite3\",\"-json\",\"data/data.db\"],\"unsafe\":true,\"stdin\":\"{sql}\"},\n"
    " \"sqlite_read\":{\"args\":{\"sql\":\"string\"},"
    "\"run\":[\"sqlite3\",\"-readonly\",\"data/data.db\"],\"unsafe\":true,\"stdin\":\"{sql}\"}\n"
    ",\"script\":{\"run\":[\"./script\"]},\n"
    " \"node\":{\"run\":[\"node\",\"-e\",\"const {{Worker}} = require('worker_threads');"
    "new Worker('console.log(6 * 7)', {{eval: true}})\"]},\n"
    " \"limits\":{\"run\":[\"sh\",\"-c\",\"ulimit -c; ulimit -v; ulimit -n\"]}}}";

static int run(const char *const *argv) {
  child program = child_start(argv);
  child_rest(program.out);
  return child_end(&program);
}
#define RUN(...) assert_int_equal(run((const char *const[]){"/usr/bin/env", __VA_ARGS__, NULL}), 0)

static void make_program(const serving *self, const char *name, const char *text) {
  char path[512];
  serving_file(self, name, text);
  serving_path(self, name, path, sizeof path);
  assert_int_equal(chmod(path, 0755), 0);
}

static int start(void **state) {
  static serving self;
  char project[512];
  serving_make(&self, config);
  serving_file(&self, "poem.txt", "a rose\nis -a rose-\nis a daisy\n");
  serving_path(&self, "data", project, sizeof project);
  assert_int_equal(mkdir(project, 0755), 0);
  serving_path(&self, "project", project, sizeof project);
  RUN("git", "-c", "init.defaultBranch=main", "init", "-q", project);
  serving_file(&self, "project/hello.txt", "hello from git\n");
  RUN("git", "-C", project, "add", "hello.txt");
  RUN("git", "-C", project, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit",
      "-q", "-m", "first words");
  make_program(&self, "script", "echo hello\n");
  serving_start(&self);
  *state = &self;
  return 0;
}

static int end(void **state) {
  char project[512];
  serving_path(*state, "project", project, sizeof project);
  RUN("rm", "-rf", project);
  serving_end(*state);
  return 0;
}

static void grep_finds_what_is_asked_for_and_nothing_is_no_failure(void **state) {
  expect_in(serving_call(*state, "grep", "{\"text\":\"daisy\"}"), "\"text\":\"3:is a daisy\\n\"");
  expect_in(serving_call(*state, "grep", "{\"text\":\"-a\"}"), "2:is -a rose-");
  expect_in(serving_call(*state, "grep", "{\"text\":\"daisy\",\"context\":1}"), "2-is -a rose-");
  expect_not_in(serving_call(*state, "grep", "{\"text\":\"tulip\"}"), "isError");
}

static void jq_gives_structured_content(void **state) {
  expect_in(
      serving_call(*state, "jq",
                   "{\"filter\":\"{n: (.list | length)}\",\"json\":\"{\\\"list\\\":[1,2,3]}\"}"),
      "\"structuredContent\":{\"n\":3}");
  const char *answer = serving_call(*state, "jq", "{\"filter\":\".a\",\"json\":\"{broken\"}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "jq ended with exit status");
  expect_in(answer, "parse error");
}

static void git_reads_and_writes_where_it_may(void **state) {
  expect_in(serving_call(*state, "git_log", "{}"), "first words by Ada");
  expect_in(serving_call(*state, "git_show", "{\"file\":\"hello.txt\"}"), "hello from git");
  expect_in(serving_call(*state, "git_show", "{\"file\":\"none\"}"), "\"isError\":true");
  expect_not_in(serving_call(*state, "git_commit", "{\"message\":\"$(id); more words\"}"),
                "isError");
  expect_in(serving_call(*state, "git_log", "{\"count\":1}"), "m: $(id); more words by Ada");
}

static void sqlite3_keeps_what_it_was_given(void **state) {
  expect_not_in(serving_call(*state, "sqlite",
                             "{\"sql\":\"CREATE TABLE t (a); INSERT INTO t VALUES ('x'), (2);\"}"),
                "isError");
  expect_in(serving_call(*state, "sqlite", "{\"sql\":\"SELECT a FROM t;\"}"),
            "[{\\\"a\\\":\\\"x\\\"},\\n{\\\"a\\\":2}]");
  expect_in(serving_call(*state, "sqlite_read", "{\"sql\":\"SELECT count(*) FROM t;\"}"),
            "\"text\":\"2\\n\"");
  expect_in(serving_call(*state, "sqlite_read", "{\"sql\":\"DROP TABLE t;\"}"), "readonly");
}

static void a_script_needs_its_first_line_and_is_told_so(void **state) {
  expect_in(serving_call(*state, "script", "{}"), "a script needs a first line such as #!/bin/sh");
  make_program(*state, "script", "#!/bin/sh\necho hello\n");
  expect_in(serving_call(*state, "script", "{}"), "\"text\":\"hello\\n\"");
}

/* Node and Go set aside much address space, and start threads. */
static void limits_leave_room_for_runtimes(void **state) {
  struct rlimit files;
  char limits[64];
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
  unsigned long long count = files.rlim_cur < 4096 ? files.rlim_cur : 4096;
  snprintf(limits, sizeof limits, "\"text\":\"0\\nunlimited\\n%llu\\n\"", count);
  expect_in(serving_call(*state, "limits", "{}"), limits);
  expect_in(serving_call(*state, "node", "{}"), "\"text\":\"42\\n\"");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(grep_finds_what_is_asked_for_and_nothing_is_no_failure),
      cmocka_unit_test(jq_gives_structured_content),
      cmocka_unit_test(git_reads_and_writes_where_it_may),
      cmocka_unit_test(sqlite3_keeps_what_it_was_given),
      cmocka_unit_test(a_script_needs_its_first_line_and_is_told_so),
      cmocka_unit_test(limits_leave_room_for_runtimes),
  };
  return cmocka_run_group_tests(tests, start, end);
}
