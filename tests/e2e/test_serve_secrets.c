/* test_serve_secrets.c - files of secrets and tokens, and what only root may read: no program's to read and no
 * resource, by whatever name, wherever they go. */
#include "landlock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

static const char program[] = IDEM_BIN_DIR "/idem";

static const char secretive[] =
    "{\"tools\":{\"cat\":{\"args\":{\"f\":\"string\"},\"run\":[\"cat\",\"--\",\"{f}\"]},\n"
    " \"list\":{\"run\":[\"ls\"]},\n"
    " \"named\":{\"run\":[\"cat\",\"key\"],\"allow\":{\"read\":[\"key\"]}},\n"
    " \"keeper\":{\"run\":[\"sh\",\"-c\",\"echo $K and $L\"],"
    "\"env\":{\"K\":{\"file\":\"key\"},\"L\":{\"file\":\"deep/key\"}}}}}";

static void start_secretive(serving *self) {
  char path[512], tokens[512];
  serving_make(self, secretive);
  serving_folder(self, "deep");
  serving_file(self, "key", "swordfish");
  serving_file(self, "deep/key", "trout");
  serving_file(self, "deep/beside", "plain");
  serving_file(self, "note", "my own");
  serving_file(self, "tokens", "long-enough-a-token\n");
  serving_path(self, "link", path, sizeof path);
  assert_int_equal(symlink("key", path), 0);
  serving_path(self, "idem.json", path, sizeof path);
  serving_path(self, "tokens", tokens, sizeof tokens);
  self->server =
      CHILD(program, "serve", path, "--stdio", "--profile", "jsonrpc", "--token-file", tokens);
}

static void expect_told(serving *self, const char *method, const char *file, const char *wanted) {
  char message[256];
  snprintf(message, sizeof message, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"%s%s%s}\n",
           method, *file ? ",\"params\":[\"" : "", file, *file ? "\"]" : "");
  child_send(self->server.in, message);
  expect_in(child_line(self->server.out), wanted);
}

static void files_of_secrets_and_tokens_are_no_program_s_to_read(void **state) {
  static const char *const closed[] = {"key", "deep/key", "tokens", "link", "./deep/../key"};
  serving self;
  (void)state;
  need_landlock(1);
  start_secretive(&self);
  for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
    expect_told(&self, "cat", closed[i], "Permission denied");
  expect_told(&self, "cat", "note", "\"result\":\"my own\"");
  expect_told(&self, "cat", "deep/beside", "\"result\":\"plain\"");
  expect_told(&self, "list", "", "deep\\nidem.json\\nkey\\n");
  expect_told(&self, "keeper", "", "\"result\":\"swordfish and trout\\n\"");
  expect_told(&self, "named", "", "\"result\":\"swordfish\""); /* the file says so */
  assert_int_equal(child_end(&self.server), 0);
  child_remove_folder(self.folder);
}

static void what_appears_beside_a_secret_can_be_read(void **state) {
  serving self;
  (void)state;
  need_landlock(1);
  start_secretive(&self);
  for (int i = 0; i < 5; i++) {
    char name[32], wanted[64];
    snprintf(name, sizeof name, "%slater%d", i % 2 ? "deep/" : "", i);
    snprintf(wanted, sizeof wanted, "\"result\":\"%s\"", name);
    serving_file(&self, name, name);
    expect_told(&self, "cat", name, wanted);
    expect_told(&self, "cat", "key", "Permission denied");
  }
  assert_int_equal(child_end(&self.server), 0);
  child_remove_folder(self.folder);
}

static void expect_refused(const char *config, const char *flag, const char *wanted) {
  serving self;
  char path[512], tokens[512];
  serving_make(&self, config);
  serving_folder(&self, "deep");
  serving_file(&self, "deep/key", "trout");
  serving_path(&self, "deep/key", tokens, sizeof tokens);
  serving_path(&self, "idem.json", path, sizeof path);
  child checked = *flag ? CHILD(program, "serve", "--check", path, flag, tokens)
                        : CHILD(program, "serve", "--check", path);
  expect_in(child_rest(checked.err), wanted);
  assert_int_equal(child_end(&checked), 1);
  child_remove_folder(self.folder);
}

/* There is no way to take one file out of a folder that may be written. */
static void secrets_in_a_folder_to_write_are_refused(void **state) {
  (void)state;
  expect_refused("{\"tools\":{\"t\":{\"run\":[\"true\"],\"allow\":{\"write\":[\"deep\"]}},"
                 "\"u\":{\"run\":[\"true\"],\"env\":{\"K\":{\"file\":\"deep/key\"}}}}}",
                 "", "holds the file of a secret");
  expect_refused("{\"tools\":{\"t\":{\"run\":[\"true\"],\"allow\":{\"write\":[\"deep\"]}}}}",
                 "--token-file", "a file of the server's own: put it elsewhere");
}

/* Each name beside it takes a rule. The tool that comes second is looked at, too. */
static void a_secret_among_too_many_is_refused_for_every_tool(void **state) {
  char config[1024], name[64], path[512];
  serving crowd;
  need_landlock(1);
  (void)state;
  serving_make(&crowd, "{}");
  for (int i = 0; i < 2100; i++) {
    snprintf(name, sizeof name, "f%d", i);
    serving_file(&crowd, name, "");
  }
  serving_file(&crowd, "key", "swordfish");
  snprintf(config, sizeof config,
           "{\"tools\":{\"a\":{\"run\":[\"true\"],\"env\":{\"K\":{\"file\":\"%s/key\"}}},"
           "\"b\":{\"run\":[\"true\"]},\"c\":{\"run\":[\"true\"],\"allow\":{\"read\":[\"%s\"]}}}}",
           crowd.folder, crowd.folder);
  expect_refused(config, "", "tool c cannot be confined: a secret or token file lies among too");
  snprintf(path, sizeof path, "rm -rf -- '%s'", crowd.folder);
  assert_int_equal(system(path), 0); /* NOLINT: the words are ours */
}

/* Another name could lie anywhere: it is not looked for, but refused. */
static void expect_linked_refused(const char *config, const char *flag, const char *value) {
  serving self;
  char path[512], key[512], link_path[512];
  serving_make(&self, config);
  serving_file(&self, "key", "swordfish-swordfish");
  serving_path(&self, "idem.json", path, sizeof path);
  serving_path(&self, "key", key, sizeof key);
  serving_path(&self, "other", link_path, sizeof link_path);
  assert_int_equal(link(key, link_path), 0);
  for (int checked = 0; checked < 2; checked++) {
    child server =
        CHILD(program, "serve", path, checked ? "--check" : "--stdio", flag, value ? value : key);
    expect_in(child_rest(server.err), "has another name, a hard link");
    assert_int_not_equal(child_end(&server), 0);
  }
  child_remove_folder(self.folder);
}

static void a_secret_by_two_names_is_refused(void **state) {
  (void)state;
  expect_linked_refused("{\"tools\":{\"t\":{\"run\":[\"true\"]}}}", "--token-file", NULL);
  expect_linked_refused(
      "{\"tools\":{\"t\":{\"run\":[\"true\"],\"env\":{\"K\":{\"file\":\"key\"}}}}}", "--log-level",
      "info");
}

static void expect_resource(serving *self, const char *uri, const char *wanted) {
  char params[128];
  snprintf(params, sizeof params, "{\"uri\":\"idem://%s\"}", uri);
  expect_in(serving_ask(self, "resources/read", params), wanted);
}

/* Also one that gets a second name, or another file, while it is served. */
static void files_of_secrets_are_no_resources(void **state) {
  serving self;
  char from[512], to[512];
  (void)state;
  serving_make(&self,
               "{\"tools\":{\"t\":{\"run\":[\"true\"],\"env\":{\"K\":{\"file\":\"d/key\"}}}},"
               "\"resources\":{\"d\":{\"directory\":\"d\"},\"e\":{\"directory\":\".\"}}}");
  serving_folder(&self, "d");
  serving_file(&self, "d/key", "swordfish");
  serving_file(&self, "d/note", "plain");
  serving_path(&self, "d/key", from, sizeof from);
  serving_path(&self, "idem.json", to, sizeof to);
  child checked = CHILD(program, "serve", "--check", to);
  expect_in(
      child_rest(checked.err),
      "resource d: key is the file of a secret or of tokens: it is not served with the others");
  assert_int_equal(child_end(&checked), 0);
  serving_start(&self);
  expect_not_in(serving_ask(&self, "resources/list", "{}"), "/key");
  expect_resource(&self, "d/key", "\"error\"");
  expect_resource(&self, "e/d/key", "\"error\"");
  expect_resource(&self, "d/note", "plain");
  serving_path(&self, "d/other", to, sizeof to);
  assert_int_equal(link(from, to), 0);
  expect_resource(&self, "d/other", "\"error\"");
  assert_int_equal(unlink(to), 0);
  serving_file(&self, "d/new", "trout");
  serving_path(&self, "d/new", to, sizeof to);
  assert_int_equal(rename(to, from), 0);
  expect_resource(&self, "d/key", "\"error\"");
  serving_end(&self);
}

/* As a rotated secret is: its folder is a link that is turned. The file that says so is broken meanwhile,
 * so that no reload helps. */
static void a_secret_that_moves_stays_hidden(void **state) {
  serving self;
  char link[512], turned[512];
  (void)state;
  need_landlock(1);
  serving_make(&self,
               "{\"tools\":{\"t\":{\"run\":[\"true\"],\"env\":{\"K\":{\"file\":\"d/now/key\"}}},"
               "\"cat\":{\"args\":{\"f\":\"string\"},\"run\":[\"cat\",\"{f}\"]}},"
               "\"resources\":{\"d\":{\"directory\":\"d\"}}}");
  serving_folder(&self, "d");
  serving_folder(&self, "d/one");
  serving_file(&self, "d/one/key", "swordfish");
  serving_path(&self, "d/now", link, sizeof link);
  serving_path(&self, "d/turned", turned, sizeof turned);
  assert_int_equal(symlink("one", link), 0);
  serving_start(&self);
  expect_in(serving_call(&self, "cat", "{\"f\":\"d/one/key\"}"), "Permission denied");
  serving_file(&self, "idem.json", "{");
  serving_folder(&self, "d/two");
  serving_file(&self, "d/two/key", "trout");
  assert_int_equal(symlink("two", turned), 0);
  assert_int_equal(rename(turned, link), 0);
  expect_in(serving_call(&self, "cat", "{\"f\":\"d/two/key\"}"), "Permission denied");
  expect_in(serving_call(&self, "cat", "{\"f\":\"d/now/key\"}"), "Permission denied");
  expect_resource(&self, "d/two/key", "\"error\"");
  assert_int_equal(unlink(link), 0); /* gone, and back */
  serving_call(&self, "cat", "{\"f\":\"d/two/key\"}");
  serving_folder(&self, "d/now");
  serving_file(&self, "d/now/key", "eel");
  expect_in(serving_call(&self, "cat", "{\"f\":\"d/now/key\"}"), "Permission denied");
  expect_resource(&self, "d/now/key", "\"error\"");
  serving_end(&self);
}

/* A program that may write puts links where the configuration names files and folders, each of which would open
 * something of its user's. */
static void a_link_put_in_place_leads_nowhere(void **state) {
  serving self;
  char private[512], config[1024], arguments[1200];
  (void)state;
  need_landlock(1);
  snprintf(private, sizeof private, "/tmp/idem-private-%d", (int)getpid());
  snprintf(config, sizeof config,
           "{\"tools\":{\"run\":{\"args\":{\"code\":\"string\"},\"unsafe\":true,"
           "\"run\":[\"sh\",\"-c\",\"{code}\"],\"allow\":{\"write\":[\"w\",\"w/sub\"]},"
           "\"tmpdir\":\"call\"},"
           "\"query\":{\"database\":\"w/t.db\",\"query\":\"SELECT 1 AS here\"}},"
           "\"resources\":{\"r\":{\"file\":\"w/report\"}}}");
  serving_make(&self, config);
  serving_folder(&self, "w");
  serving_folder(&self, "w/sub");
  serving_file(&self, "w/report", "a report");
  serving_file(&self, "w/t.db", "");
  assert_int_equal(mkdir(private, 0700), 0);
  serving_start(&self);
  expect_in(serving_call(&self, "query", "{}"), "here");
  snprintf(
      arguments, sizeof arguments,
      "{\"code\":\"cd w && rm -r sub report t.db && ln -s %s sub && ln -s /etc/hostname report && "
      "ln -s %s/f t.db && echo linked\"}",
      private, private);
  expect_in(serving_call(&self, "run", arguments), "linked");
  snprintf(arguments, sizeof arguments, "{\"code\":\"echo x > %s/f && echo written\"}", private);
  expect_in(serving_call(&self, "run", arguments), "Permission denied");
  expect_in(serving_call(&self, "query", "{}"), "\"isError\":true");
  expect_in(serving_ask(&self, "resources/read", "{\"uri\":\"idem://r\"}"), "\"error\"");
  serving_end(&self);
  assert_int_equal(rmdir(private), 0);
}

static void a_secret_s_file_alone_is_no_resource(void **state) {
  (void)state;
  expect_refused("{\"tools\":{\"t\":{\"run\":[\"true\"],\"env\":{\"K\":{\"file\":\"deep/key\"}}}},"
                 "\"resources\":{\"r\":{\"file\":\"deep/key\"}}}",
                 "", "resource r: this is the file of a secret or of tokens");
  expect_refused("{\"resources\":{\"r\":{\"file\":\"deep/key\"}}}", "--token-file",
                 "resource r: this is the file of a secret or of tokens");
}

/* A server of root's runs programs of root's. Who is nobody special cannot read them anyway. */
static void what_only_root_may_read_is_no_program_s(void **state) {
  static const char *const closed[] = {"/etc/shadow", "/etc/gshadow", "/etc/../etc/shadow",
                                       "/proc/self/root/etc/shadow"};
  serving self;
  (void)state;
  need_landlock(1);
  serving_make(&self, secretive);
  serving_folder(&self, "deep");
  serving_file(&self, "key", "swordfish");
  serving_file(&self, "deep/key", "trout");
  serving_start(&self);
  for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
    char arguments[128];
    snprintf(arguments, sizeof arguments, "{\"f\":\"%s\"}", closed[i]);
    if (access(closed[i], F_OK) == 0)
      expect_in(serving_call(&self, "cat", arguments), "Permission denied");
  }
  expect_in(serving_call(&self, "cat", "{\"f\":\"/etc/passwd\"}"), "root:");
  expect_in(serving_call(&self, "cat", "{\"f\":\"/etc/ssl/openssl.cnf\"}"), "openssl");
  serving_end(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_of_secrets_and_tokens_are_no_program_s_to_read),
      cmocka_unit_test(what_appears_beside_a_secret_can_be_read),
      cmocka_unit_test(secrets_in_a_folder_to_write_are_refused),
      cmocka_unit_test(a_secret_among_too_many_is_refused_for_every_tool),
      cmocka_unit_test(a_secret_by_two_names_is_refused),
      cmocka_unit_test(files_of_secrets_are_no_resources),
      cmocka_unit_test(a_secret_that_moves_stays_hidden),
      cmocka_unit_test(a_link_put_in_place_leads_nowhere),
      cmocka_unit_test(a_secret_s_file_alone_is_no_resource),
      cmocka_unit_test(what_only_root_may_read_is_no_program_s),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed ? failed : left_out ? 77 : 0;
}
