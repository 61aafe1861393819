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
  serving_file(&self, "out/run.py", "");
  char path[512], link[512];
  serving_path(&self, "out/tool", path, sizeof path);
  assert_int_equal(chmod(path, 0755), 0);
  serving_path(&self, "out/led", link, sizeof link);
  assert_int_equal(symlink("/bin/true", link), 0);
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

static void expect_way_refused(const char *config_at, const char *served_at, const char *link_at,
                               const char *link_to, bool hard) {
  static const char config[] =
      "{\"tools\":{\"t\":{\"run\":[\"true\"],\"allow\":{\"write\":[\"%s/w\"]}}}}";
  static serving self;
  char text[1024], path[512], to[512];
  serving_make(&self, "{}");
  const char *const folders[] = {"w", "real"};
  for (size_t i = 0; i < 2; i++) {
    serving_path(&self, folders[i], path, sizeof path);
    assert_int_equal(mkdir(path, 0755), 0);
  }
  snprintf(text, sizeof text, config, self.folder);
  serving_file(&self, config_at, text);
  serving_path(&self, link_at, path, sizeof path);
  serving_path(&self, link_to, to, sizeof to);
  if (hard)
    assert_int_equal(link(to, path), 0);
  else
    assert_int_equal(symlink(to, path), 0);
  serving_path(&self, served_at, path, sizeof path);
  child checked = CHILD(program, "serve", "--check", path);
  expect_in(child_rest(checked.err), hard ? "has another name" : "holds this configuration");
  assert_int_equal(child_end(&checked), 1);
  unmake(&self);
}

/* Who may turn a link on the way to the file says which file it is. */
static void a_configuration_that_is_reached_through_such_a_folder_is_refused(void **state) {
  (void)state;
  expect_way_refused("real/idem.json", "w/idem.json", "w/idem.json", "real/idem.json", false);
  expect_way_refused("real/idem.json", "w/now/idem.json", "w/now", "real", false);
  expect_way_refused("idem.json", "idem.json", "w/other", "idem.json", true);
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
  expect_refused("out", ",\"u\":{\"run\":[\"./out/led\"],\"confine\":false}",
                 "holds the program of u, which may do more");
  expect_refused("out", ",\"u\":{\"run\":[\"out/tool\"]}", NULL);
  expect_refused("out", ",\"u\":{\"run\":[\"sh\",\"-e\",\"out/tool\"],\"confine\":false}",
                 "holds the program of u, which may do more");
  expect_refused("out",
                 ",\"u\":{\"run\":[\"timeout\",\"5\",\"sh\",\"out/tool\"],\"confine\":false}",
                 "holds the program of u, which may do more");
  static const char *const modules[] = {
      "[\"python3\",\"-m\",\"out.run\"]", "[\"python3\",\"-B\",\"-mout.run\"]",
      "[\"env\",\"python3\",\"-m\",\"out\"]", "[\"python3\",\"-m\",\"json.tool\"],\"cwd\":\"out\""};
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
    char tool[256];
    snprintf(tool, sizeof tool, ",\"u\":{\"run\":%s,\"confine\":false}", modules[i]);
    expect_refused("out", tool, "holds the program of u, which may do more");
  }
  expect_refused("out", ",\"u\":{\"run\":[\"python3\",\"-m\",\"json.tool\"],\"confine\":false}",
                 NULL);
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
    expect_in(child_line_with(self->server.err, "a tool would be given more than before"),
              more[i].wanted);
    child_line_with(self->server.err, "a reload that gives more is refused");
    child_line_with(self->server.err, "the old configuration stays in force");
    expect_in(serving_call(self, "a", "{}"), "first\\n");
  }
}

/* ------------------------------------------------------------------------- key by key */

static const char keys[] =
    "{\"auth\":{\"issuer\":\"https://id.example.org\",\"resource\":\"https://mcp.example.org/"
    "mcp\"},"
    "\"concurrency\":4,\"queue\":50,\"tools\":{\n"
    " \"a\":{\"run\":[\"echo\",\"first\"]},\n"
    " \"f\":{\"args\":{\"p\":\"string\"},\"run\":[\"cat\",\"{p}\"],\"inside\":{\"p\":\"out\"},"
    "\"stderr\":\"hide\",\"tmpdir\":\"call\",\"deadline_ms\":5000,\"idle_ms\":4000,"
    "\"output_bytes\":1000,\"processes\":20},\n"
    " \"s\":{\"args\":{\"p\":\"string\"},\"run\":[\"sh\",\"-c\",\"echo 1\",\"sh\",\"{p}\"]},\n"
    " \"q\":{\"query\":\"select 1\",\"database\":\"data.db\",\"max_rows\":10},\n"
    " \"w\":{\"query\":\"select 1\",\"script\":\"make.sql\",\"scopes\":[\"use\"]},\n"
    " \"h\":{\"http\":{\"url\":\"https://one.example.org/\"}},\n"
    " \"hs\":{\"args\":{\"i\":{\"enum\":[\"me\"]}},\"http\":{\"url\":\"https://key.example.org/"
    "show/{i}\","
    "\"method\":\"GET\",\"headers\":{\"K\":{\"file\":\"other\"}}}},\n"
    " \"qw\":{\"args\":{\"x\":{\"enum\":[\"y\"]}},\"query\":\"create table t as select :x\","
    "\"database\":\"data.db\",\"write\":true},\n"
    " \"net\":{\"args\":{\"x\":{\"enum\":[\"net\"]}},\"run\":[\"echo\",\"net\",\"{x}\"],"
    "\"allow\":{\"net\":true}},\n"
    " \"put\":{\"run\":[\"echo\",\"put\"],\"allow\":{\"write\":[\"out\"]}},\n"
    " \"var\":{\"run\":[\"echo\",\"var\"],\"pass_env\":[\"HOME\"]},\n"
    " \"sec\":{\"run\":[\"echo\",\"sec\"],\"env\":{\"K\":{\"file\":\"other\"}}}},\n"
    "\"resources\":{\"d\":{\"directory\":\"out\",\"include\":[\"*.md\"],\"max_bytes\":1000},"
    "\"r\":{\"file\":\"key\",\"scopes\":[\"look\"]}},\n"
    "\"prompts\":{\"p\":{\"text\":\"{x}\",\"scopes\":[\"speak\"],\"arguments\":{\"x\":{"
    "\"description\":\"x\","
    "\"complete\":{\"run\":[\"echo\",\"x\"]}}}}}}";

/* The file with one part of it replaced. */
static void replace(const serving *self, const char *from, const char *to) {
  char text[4096], path[512], name[512];
  const char *at = strstr(keys, from);
  assert_non_null(at);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - keys), keys, to, at + strlen(from));
  serving_file(self, "new~", text);
  serving_path(self, "new~", path, sizeof path);
  serving_path(self, "idem.json", name, sizeof name);
  assert_int_equal(rename(path, name), 0);
}

static void start_with_keys(serving *self, const char *outside) {
  char path[512];
  make(self, keys);
  serving_file(self, "make.sql", "create table t(x);");
  serving_file(self, "other", "swordfish");
  snprintf(path, sizeof path, "%s/other.sql", outside);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("create table t(x);", file);
  fclose(file);
  serving_start(self);
}

static void every_key_that_loosens_is_refused(void **state) {
  char outside[256], script[320], database[320], folder[320];
  static serving self;
  (void)state;
  child_make_folder(outside, sizeof outside);
  snprintf(script, sizeof script, "\"script\":\"%s/other.sql\"", outside);
  snprintf(database, sizeof database, "\"database\":\"%s/other.sql\"", outside);
  snprintf(folder, sizeof folder, "\"directory\":\"%s\"", outside);
  const struct {
    const char *from, *to, *wanted;
  } rows[] = {
      {"\"concurrency\":4", "\"concurrency\":5", "the server has concurrency 5, not 4"},
      {"\"queue\":50", "\"queue\":51", "the server has queue 51, not 50"},
      {"\"queue\":50,", "", "the server has queue 1000, not 50"},
      {"\"p\":\"out\"", "\"p\":\".\"", "f takes more files as p"},
      {"\"inside\":{\"p\":\"out\"},", "", "f takes any file as p"},
      {"\"stderr\":\"hide\",", "", "f shows its stderr"},
      {"\"tmpdir\":\"call\",", "", "f shares a temporary folder among its calls"},
      {"\"deadline_ms\":5000", "\"deadline_ms\":5001", "f has deadline_ms 5001, not 5000"},
      {"\"deadline_ms\":5000,", "", "f has deadline_ms 600000, not 5000"},
      {"\"idle_ms\":4000", "\"idle_ms\":4001", "f has idle_ms 4001, not 4000"},
      {"\"output_bytes\":1000", "\"output_bytes\":1001", "f has output_bytes 1001, not 1000"},
      {"\"processes\":20", "\"processes\":21", "f has processes 21, not 20"},
      {"echo 1\",\"sh\",\"{p}\"]", "echo {p}\"],\"unsafe\":true",
       "s takes values as parts of programs (unsafe)"},
      {"\"max_rows\":10", "\"max_rows\":11", "q has max_rows 11, not 10"},
      {"\"max_rows\":10", "\"write\":true", "q may write data.db"},
      {"\"database\":\"data.db\"", database, "q may read "},
      {"\"script\":\"make.sql\"", script, "w may read "},
      {"one.example", "two.example", "h asks https://two.example.org"},
      {"https://one", "http://one", "h asks http://one.example.org"},
      {"/show/", "/delete/", "hs has a secret and asks something else of https://key.example.org"},
      {"\"GET\"", "\"POST\"", "hs has a secret and asks something else of "},
      {"[\"me\"]", "[\"me\",\"you\"]", "hs has a secret and asks something else of "},
      {"key.example", "two.example", "hs sends a secret to https://two.example.org"},
      {"create table t", "create table u", "qw runs another statement and may write data.db"},
      {"[\"y\"]", "[\"y\",\"z\"]", "qw runs another statement and may write data.db"},
      {"[\"echo\",\"net\"", "[\"printf\",\"net\"", "net has the network and runs something else"},
      {"[\"net\"]", "[\"net\",\"web\"]", "net has the network and runs something else"},
      {"[\"echo\",\"put\"", "[\"echo\"", "put has folders to write and runs something else"},
      {"[\"echo\",\"var\"", "[\"echo\"", "var has variables of the server and runs something else"},
      {"[\"echo\",\"sec\"", "[\"echo\"", "sec has a secret and runs something else"},
      {"\"directory\":\"out\"", "\"directory\":\"/etc\"", "d serves /etc"},
      {"\"directory\":\"out\"", "\"directory\":\".\"", "d serves "},
      {"\"include\":[\"*.md\"],", "", "d includes more files"},
      {"[\"*.md\"]", "[\"*.md\",\"*.txt\"]", "d includes more files"},
      {"\"max_bytes\":1000", "\"max_bytes\":1001", "d has max_bytes 1001, not 1000"},
      {"\"resources\":{", "\"resources\":{\"e\":{\"directory\":\"/etc\"},", "e serves /etc"},
      {"\"directory\":\"out\"", folder, "d serves "},
      {"\"file\":\"key\"", "\"file\":\"/etc/passwd\"", "r serves "},
      {",\"scopes\":[\"use\"]", "", "w needs other scopes"},
      {",\"scopes\":[\"look\"]", "", "r needs other scopes"},
      {",\"scopes\":[\"speak\"]", "", "p needs other scopes"},
      {"[\"speak\"]", "[\"other\"]", "p needs other scopes"},
      {"[\"echo\",\"x\"]", "[\"echo\",\"x\"],\"confine\":false", "completion of x is not confined"},
      {"[\"echo\",\"x\"]", "[\"echo\",\"x\"],\"env\":{\"K\":{\"file\":\"make.sql\"}}",
       "completion of x is given the secret K"},
      {"[\"echo\",\"x\"]", "[\"echo\",\"x\"],\"pass_env\":[\"HOME\"]",
       "completion of x is given the variable HOME"},
      {"[\"echo\",\"x\"]", "[\"echo\",\"x\"],\"deadline_ms\":5001",
       "completion of x has deadline_ms 5001, not 5000"},
      {"\"tools\":{", "\"tools\":{\"n\":{\"run\":[\"id\"],\"deadline_ms\":600001},",
       "n has deadline_ms 600001, not 600000"},
  };
  start_with_keys(&self, outside);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    print_message("%s\n", rows[i].wanted);
    replace(&self, rows[i].from, rows[i].to);
    expect_in(child_line_with(self.server.err, "would be given more than before"), rows[i].wanted);
    child_line_with(self.server.err, "a reload that gives more is refused");
    child_line_with(self.server.err, "the old configuration stays in force");
  }
  close(self.server.in);
  unmake(&self);
  child_remove_folder(outside);
}

/* Who reads the log before a start sees all of it. */
static void all_that_a_tool_would_be_given_is_logged(void **state) {
  static const char *const wanted[] = {"a is given the secret K",
                                       "a is given the variable HOME",
                                       "a may use the network",
                                       "a may write out",
                                       "a may read /var",
                                       "a has a secret and runs",
                                       "a has output_bytes 2000000",
                                       "a has processes 1025"};
  serving *self = *state;
  change(self, "a",
         "{\"run\":[\"id\"],\"env\":{\"K\":{\"file\":\"key\"}},\"pass_env\":[\"HOME\"],"
         "\"allow\":{\"net\":true,\"write\":[\"out\"],\"read\":[\"/var\"]},"
         "\"processes\":1025,\"output_bytes\":2000000}");
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    expect_in(child_line_with(self->server.err, wanted[i]), "WARN  a tool would be given more");
  child_line_with(self->server.err, "the old configuration stays in force");
}

static void a_key_that_takes_away_is_served(void **state) {
  static const char *const rows[][2] = {
      {"\"concurrency\":4", "\"concurrency\":3"},
      {"\"deadline_ms\":5000", "\"deadline_ms\":4999"},
      {"\"max_bytes\":1000", "\"max_bytes\":999"},
      {"\"resources\":{", "\"resources\":{\"e\":{\"directory\":\"out\"},"},
      {"\"tools\":{", "\"tools\":{\"n\":{\"run\":[\"id\"],\"deadline_ms\":600000},"},
      {"\"inside\":{\"p\":\"out\"}", "\"inside\":{\"p\":\"out\"},\"title\":\"t\""},
      {"\"allow\":{\"net\":true}", "\"allow\":{\"net\":false}"},
      {"[\"echo\",\"put\"],\"allow\":{\"write\":[\"out\"]}", "[\"echo\"]"},
      {"\"pass_env\":[\"HOME\"]", "\"pass_env\":[\"HOME\"],\"title\":\"t\""},
  };
  char outside[256];
  static serving self;
  (void)state;
  child_make_folder(outside, sizeof outside);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    start_with_keys(&self, outside);
    replace(&self, rows[i][0], rows[i][1]);
    child_line_with(self.server.err, "configuration reloaded");
    close(self.server.in);
    unmake(&self);
  }
  child_remove_folder(outside);
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
}

/* Someone who tightened a tool and finds that it needs what it had should not have to start the server again. */
static void a_reload_may_go_back_to_what_the_server_was_started_with(void **state) {
  serving *self = *state;
  change(self, "wide", "{\"run\":[\"echo\",\"narrow\"]}");
  child_line_with(self->server.err, "configuration reloaded");
  change(self, "wide",
         "{\"run\":[\"echo\",\"wide\"],\"allow\":{\"write\":[\"out\"]}}"); /* half of it */
  child_line_with(self->server.err, "tools are given back what the server was started with");
  child_line_with(self->server.err, "configuration reloaded");
  expect_in(serving_call(self, "wide", "{}"), "wide\\n");
  change(self, "new",
         "{\"run\":[\"echo\",\"new\"]}"); /* all of it, and a tool with default bounds */
  child_line_with(self->server.err, "tools are given back what the server was started with");
  child_line_with(self->server.err, "configuration reloaded");
  change(self, "wide",
         "{\"run\":[\"echo\",\"wide\"],\"allow\":{\"net\":true,\"write\":[\"out\",\"/var/tmp\"]}}");
  child_line_with(self->server.err, "a tool would be given more than before");
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
      cmocka_unit_test(a_configuration_that_is_reached_through_such_a_folder_is_refused),
      cmocka_unit_test(a_program_that_is_not_there_is_one_fault_of_several),
      cmocka_unit_test(a_program_that_may_do_more_is_not_another_s_to_write),
      cmocka_unit_test(every_key_that_loosens_is_refused),
      cmocka_unit_test(a_key_that_takes_away_is_served),
      cmocka_unit_test(a_flag_allows_it_and_the_log_says_what),
  };
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reload_that_gives_more_is_refused),
      cmocka_unit_test(all_that_a_tool_would_be_given_is_logged),
      cmocka_unit_test(a_tool_cannot_be_given_the_configuration_by_a_reload),
      cmocka_unit_test(a_new_command_of_a_secret_is_not_run_by_a_reload),
      cmocka_unit_test(a_reload_that_gives_the_same_or_less_is_served),
      cmocka_unit_test(a_reload_may_go_back_to_what_the_server_was_started_with),
  };
  int failed = cmocka_run_group_tests(alone, NULL, NULL);
  return failed + cmocka_run_group_tests(tests, start, end);
}
