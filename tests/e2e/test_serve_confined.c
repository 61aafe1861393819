/* test_serve_confined.c - a program reaches what it must and what the file allows, nothing else. */
#include "landlock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char program[] = IDEM_BIN_DIR "/idem";
static serving outside; /* only its folder: a place that no tool was told of */
static int listener;
static char *config_text;

static int listen_somewhere(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof address;
  listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
  assert_int_equal(listen(listener, 8), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
  return ntohs(address.sin_port);
}

static char *make_config(void) {
  char *config = NULL;
  const char *there = outside.folder;
  int port = listen_somewhere();
  assert_true(
      asprintf(
          &config,
          "{\"tools\":{\n"
          " \"peek\":{\"run\":[\"cat\",\"%s/hoard\"]},\n"
          " \"peek_allowed\":{\"run\":[\"cat\",\"%s/hoard\"],\"allow\":{\"read\":[\"%s\"]}},\n"
          " \"peek_free\":{\"run\":[\"cat\",\"%s/hoard\"],\"confine\":false},\n"
          " \"own\":{\"run\":[\"cat\",\"note\"]},\n"
          " \"write\":{\"run\":[\"sh\",\"-c\",\"echo x >made\"]},\n"
          " \"write_allowed\":{\"run\":[\"sh\",\"-c\",\"echo x >made && cat made\"],"
          "\"cwd\":\"out\",\"allow\":{\"write\":[\"out\"]}},\n"
          " \"temporary\":{\"run\":[\"sh\",\"-c\",\"echo fine >$TMPDIR/t && cat $TMPDIR/t\"]},\n"
          " \"leave\":{\"run\":[\"sh\",\"-c\",\"echo mine >$TMPDIR/left && echo $TMPDIR/left\"]},\n"
          " \"meddle\":{\"args\":{\"file\":\"string\"},\"run\":[\"sh\",\"-c\","
          "\"echo $TMPDIR; cat $1; ls $1/..; echo theirs >>$1\",\"sh\",\"{file}\"]},\n"
          " \"own_folder\":{\"tmpdir\":\"call\",\"progress\":true,\"args\":{\"file?\":\"string\"},"
          "\"run\":[\"sh\",\"-c\",\"if [ $# = 1 ]; then cat $1; ls $1/.. $1/../..; exit; fi; echo "
          "mine "
          ">$TMPDIR/left; echo progress: 1 $TMPDIR/left >&2; sleep 1000\",\"sh\",\"{file}\"]},\n"
          " \"litter\":{\"tmpdir\":\"call\",\"run\":[\"sh\",\"-c\",\"cd $TMPDIR && mkdir -p a/b/c "
          "&& "
          "touch a/b/f a/b/c/f && ln -s / a/b/root && chmod 0 a/b/c && chmod 500 a/b && chmod 0 a "
          "&& "
          "pwd\"]},\n"
          " \"digs\":{\"tmpdir\":\"call\",\"run\":[\"" HOSTILE "\",\"dig\"]},\n"
          " \"net\":{\"run\":[\"bash\",\"-c\",\"exec 3<>/dev/tcp/127.0.0.1/%d && echo in\"]},\n"
          " \"net_allowed\":{\"run\":[\"bash\",\"-c\",\"exec 3<>/dev/tcp/127.0.0.1/%d && "
          "echo in\"],\"allow\":{\"net\":true}},\n"
          " \"signal\":{\"args\":{\"pid\":\"integer\"},"
          "\"run\":[\"sh\",\"-c\",\"kill -0 $1\",\"sh\",\"{pid}\"]}\n"
          "}}",
          there, there, there, there, port, port) > 0);
  return config;
}

static int start(void **state) {
  static serving self;
  serving_make(&outside, "{}");
  serving_file(&outside, "hoard", "treasure");
  config_text = make_config();
  serving_make(&self, config_text);
  serving_file(&self, "note", "my own");
  serving_folder(&self, "out");
  serving_start(&self);
  *state = &self;
  return 0;
}

static int end(void **state) {
  serving_end(*state);
  child_remove_folder(outside.folder);
  free(config_text);
  close(listener);
  return 0;
}

static void files_elsewhere_cannot_be_read(void **state) {
  need_landlock(1);
  const char *answer = serving_call(*state, "peek", "{}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "Permission denied");
  expect_in(answer, "peek is confined; \\\"allow\\\" in its definition");
  expect_in(answer, "the names that are [redacted] (--log-level debug)");
  expect_not_in(answer, "treasure");
}

static void files_beside_the_configuration_can_be_read(void **state) {
  expect_in(serving_call(*state, "own", "{}"), "my own");
}

static void what_the_file_allows_can_be_read(void **state) {
  expect_in(serving_call(*state, "peek_allowed", "{}"), "treasure");
  expect_in(serving_call(*state, "peek_free", "{}"), "treasure");
}

static void nothing_can_be_written_but_in_a_temporary_folder(void **state) {
  need_landlock(1);
  expect_in(serving_call(*state, "write", "{}"), "\"isError\":true");
  expect_in(serving_call(*state, "temporary", "{}"), "\"text\":\"fine\\n\"");
}

/* The path that `leave` tells, as the arguments of the other tool. */
static void one_tool_s_temporary_files_are_not_another_s(void **state) {
  need_landlock(1);
  char file[256], arguments[300];
  const char *at = strstr(serving_call(*state, "leave", "{}"), "\"text\":\"");
  assert_non_null(at);
  snprintf(file, sizeof file, "%.*s", (int)strcspn(at + 8, "\\"), at + 8);
  expect_in(file, "/left");
  snprintf(arguments, sizeof arguments, "{\"file\":\"%s\"}", file);
  const char *answer = serving_call(*state, "meddle", arguments);
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "Permission denied");
  expect_not_in(answer, "mine");
  char held[64] = "";
  FILE *left = fopen(file, "r");
  assert_non_null(left);
  assert_non_null(fgets(held, sizeof held, left));
  assert_null(fgets(arguments, sizeof arguments, left));
  fclose(left);
  assert_string_equal(held, "mine\n");
}

static void what_the_file_allows_can_be_written(void **state) {
  expect_in(serving_call(*state, "write_allowed", "{}"), "\"text\":\"x\\n\"");
}

static void connections_need_to_be_allowed(void **state) {
  expect_in(serving_call(*state, "net", "{}"), "\"isError\":true");
  expect_in(serving_call(*state, "net_allowed", "{}"), "\"text\":\"in\\n\"");
}

/* They are started by the same few processes, one after the other. */
static void what_one_tool_may_the_next_may_not(void **state) {
  for (int i = 0; i < 3; i++) {
    expect_in(serving_call(*state, "net_allowed", "{}"), "\"text\":\"in\\n\"");
    expect_in(serving_call(*state, "net", "{}"), "\"isError\":true");
    expect_in(serving_call(*state, "net_allowed", "{}"), "\"text\":\"in\\n\"");
    expect_in(serving_call(*state, "peek_free", "{}"), "treasure");
    expect_in(serving_call(*state, "peek", "{}"), "\"isError\":true");
  }
}

/* Some systems remove what nobody has touched for days. */
/* Waits until the one who removes it has. */
static void expect_no_folder(const char *path) {
  uint64_t until = child_now_ms() + 60000;
  while (access(path, F_OK) == 0) {
    if (child_now_ms() > until) fail_msg("%s is still there", path);
    poll(NULL, 0, 5);
  }
}

static void calls_can_have_a_temporary_folder_each(void **state) {
  char path[256], arguments[300], message[160];
  need_landlock(1);
  int id = serving_send_call(*state, "own_folder", "{}");
  const char *told = strstr(child_line_with(((serving *)*state)->server.out, "/left"), "\"/");
  assert_int_equal(sscanf(told, "\"%255[^\"]", path), 1);
  snprintf(arguments, sizeof arguments, "{\"file\":\"%s\"}", path);
  const char *answer = serving_call(*state, "own_folder", arguments);
  expect_in(answer, "Permission denied");
  expect_not_in(answer, "mine");
  assert_int_equal(access(path, F_OK), 0);
  snprintf(message, sizeof message,
           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
           "\"params\":{\"requestId\":%d}}\n",
           id);
  child_send(((serving *)*state)->server.in, message);
  *strrchr(path, '/') = 0;
  expect_no_folder(path);
}

/* Whatever it left there, by the time of its answer: also where the user is bound by modes. */
static void a_call_s_own_folder_goes_with_it(void **state) {
  char path[256];
  static serving bound;
  (void)state;
  serving_make(&bound, config_text);
  serving_folder(&bound, "out");
  child_obey_modes(true);
  serving_start(&bound);
  child_obey_modes(false);
  for (int i = 0; i < 2; i++) {
    const char *told = strstr(serving_call(&bound, "litter", "{}"), "\"text\":\"/");
    assert_non_null(told);
    assert_int_equal(sscanf(told + 8, "%255[^\\]", path), 1);
    assert_int_equal(access(path, F_OK), -1);
    *strrchr(path, '/') = 0;
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(rmdir(path), 0); /* it is empty, and is made again */
  }
  serving_end(&bound);
}

static void a_temporary_folder_that_was_removed_is_made_again(void **state) {
  char path[256] = "", *end;
  const char *answer = serving_call(*state, "leave", "{}"), *at = strstr(answer, "/left");
  assert_non_null(at);
  while (at[-1] != '"') at--;
  snprintf(path, sizeof path, "%s", at);
  assert_non_null(end = strstr(path, "/left"));
  *end = 0;
  child_remove_folder(path);
  expect_in(serving_call(*state, "leave", "{}"), path);
}

static void clean_up(const char *path) {
  char command[320];
  snprintf(command, sizeof command, "rm -r -- '%s'", path);
  assert_int_equal(system(command), 0); /* NOLINT: the words are ours */
}

/* The server's own folder, in which the tool's is. */
static void find_private_folder(serving *self, char *path, size_t size) {
  const char *answer = serving_call(self, "leave", "{}"), *at = strstr(answer, "/left");
  assert_non_null(at);
  while (at[-1] != '"') at--;
  snprintf(path, size, "%.*s", (int)(strstr(at, "/left") - at), at);
  *strrchr(path, '/') = 0;
}

static void a_private_folder_that_was_removed_is_made_again(void **state) {
  char path[256], again[256];
  find_private_folder(*state, path, sizeof path);
  clean_up(path);
  find_private_folder(*state, again, sizeof again);
  assert_string_equal(again, path);
  expect_in(serving_call(*state, "temporary", "{}"), "\"text\":\"fine\\n\"");
}

/* In /tmp anyone can put something there once a cleaner took ours. */
static void what_others_put_in_its_place_is_not_used(void **state) {
  char path[256], target[512], elsewhere[256];
  struct stat about;
  find_private_folder(*state, path, sizeof path);
  clean_up(path);
  serving_path(&outside, "trap", target, sizeof target);
  assert_int_equal(mkdir(target, 0700), 0);
  assert_int_equal(symlink(target, path), 0);
  find_private_folder(*state, elsewhere, sizeof elsewhere);
  assert_string_not_equal(elsewhere, path);
  assert_int_equal(rmdir(target), 0); /* it is empty */
  assert_int_equal(unlink(path), 0);
  if (geteuid() != 0) return; /* only root can make it another user's */
  assert_int_equal(chown(elsewhere, 1, 1), 0);
  find_private_folder(*state, path, sizeof path);
  assert_string_not_equal(elsewhere, path);
  clean_up(elsewhere);
  assert_int_equal(chmod(path, 0777), 0);
  find_private_folder(*state, elsewhere, sizeof elsewhere);
  assert_string_equal(elsewhere, path);
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0700);
}

/* Whatever moved, it goes with the server. */
static void the_last_private_folder_goes_with_the_server(void **state) {
  char path[256];
  static serving self;
  (void)state;
  serving_make(&self, config_text);
  serving_folder(&self, "out");
  serving_start(&self);
  find_private_folder(&self, path, sizeof path);
  clean_up(path);
  assert_int_equal(symlink("/nowhere", path), 0);
  char moved[256];
  find_private_folder(&self, moved, sizeof moved);
  assert_int_equal(kill(self.server.pid, SIGKILL), 0);
  assert_int_equal(child_end(&self.server), -SIGKILL);
  expect_no_folder(moved);
  assert_int_equal(unlink(path), 0);
  child_remove_folder(self.folder);
}

static void trees_too_deep_for_a_path_are_removed(void **state) {
  char path[256];
  static serving bound;
  (void)state;
  serving_make(&bound, config_text);
  serving_folder(&bound, "out");
  child_obey_modes(true);
  serving_start(&bound);
  child_obey_modes(false);
  const char *told = strstr(serving_call(&bound, "digs", "{}"), "\"text\":\"/");
  assert_non_null(told);
  assert_int_equal(sscanf(told + 8, "%255[^\\]", path), 1);
  assert_int_equal(access(path, F_OK), -1);
  serving_end(&bound);
}

static void other_processes_cannot_be_signalled(void **state) {
  need_landlock(6);
  char arguments[64];
  snprintf(arguments, sizeof arguments, "{\"pid\":%ld}", (long)getpid());
  expect_in(serving_call(*state, "signal", arguments), "\"isError\":true");
}

/* ---------------------------------------------------------------- what is said of it */

static const char *own_path; /* of this program, which can hide things from another */

static void expect_said(child *server, char *said, size_t size) {
  const char *line;
  said[0] = 0;
  do {
    line = child_line(server->err);
    size_t len = strlen(said);
    snprintf(said + len, size - len, "%s\n", line);
  } while (!strstr(line, "listening on stdio"));
}

static void peek_plainly(const child *server, const char *wanted) {
  child_send(server->in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"peek\"}\n");
  expect_in(child_line(server->out), wanted);
}

static void what_keeps_programs_in_bounds_is_said(void **state) {
  char path[512], said[4096];
  need_landlock(6);
  serving_path(*state, "idem.json", path, sizeof path);
  child server = CHILD(program, "serve", path, "--stdio", "--profile", "jsonrpc");
  expect_said(&server, said, sizeof said);
  expect_in(
      said,
      "clean environment, no new privileges, no core files, time and output limits, "
      "files by Landlock, no sockets and no hand on other processes by seccomp, no signals to "
      "others; open: modes, owners and times of this user's files");
  expect_in(said, " are not confined (confine: false), 1 may use the network (allow: net)");
  peek_plainly(&server, "Permission denied");
  assert_int_equal(child_end(&server), 0);
}

static void what_this_kernel_does_not_offer_is_said(void **state) {
  char path[512], said[4096];
  serving_path(*state, "idem.json", path, sizeof path);
  child server =
      CHILD(own_path, "--hide", program, "serve", path, "--stdio", "--profile", "jsonrpc");
  expect_said(&server, said, sizeof said);
  expect_in(said, "clean environment, no new privileges, no core files, time and output limits; "
                  "open: modes, owners and times of this user's files\n");
  expect_in(said, "WARN  programs are not confined to files detail=this kernel has no Landlock");
  expect_in(said, "WARN  programs are not kept from the network detail=this kernel has no seccomp: "
                  "TCP and UDP are open; limits and priorities of other processes are open, too");
  peek_plainly(&server, "\"result\":\"treasure\"");
  assert_int_equal(child_end(&server), 0);
}

/* Runs a program to which Landlock and seccomp are calls that the kernel does not know. */
static int hide_from(char **argv) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog rules = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &rules) == 0)
    execv(argv[0], argv);
  perror(argv[0]);
  return 1;
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "--hide") == 0) return hide_from(argv + 2);
  own_path = argv[0];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_elsewhere_cannot_be_read),
      cmocka_unit_test(files_beside_the_configuration_can_be_read),
      cmocka_unit_test(what_the_file_allows_can_be_read),
      cmocka_unit_test(nothing_can_be_written_but_in_a_temporary_folder),
      cmocka_unit_test(one_tool_s_temporary_files_are_not_another_s),
      cmocka_unit_test(what_the_file_allows_can_be_written),
      cmocka_unit_test(connections_need_to_be_allowed),
      cmocka_unit_test(what_one_tool_may_the_next_may_not),
      cmocka_unit_test(calls_can_have_a_temporary_folder_each),
      cmocka_unit_test(a_call_s_own_folder_goes_with_it),
      cmocka_unit_test(a_temporary_folder_that_was_removed_is_made_again),
      cmocka_unit_test(a_private_folder_that_was_removed_is_made_again),
      cmocka_unit_test(what_others_put_in_its_place_is_not_used),
      cmocka_unit_test(the_last_private_folder_goes_with_the_server),
      cmocka_unit_test(trees_too_deep_for_a_path_are_removed),
      cmocka_unit_test(other_processes_cannot_be_signalled),
      cmocka_unit_test(what_keeps_programs_in_bounds_is_said),
      cmocka_unit_test(what_this_kernel_does_not_offer_is_said),
  };
  int failed = cmocka_run_group_tests(tests, start, end);
  return failed ? failed : left_out ? 77 : 0;
}
