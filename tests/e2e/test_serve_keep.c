/* test_serve_keep.c - programs that stay: asked many times, dying, stuck, idle, and gone with the server. */
#include "serving.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char program[] =
    "import json, os, sys, threading, time\n"
    "lock = threading.Lock()\n"
    "cancelled = set()\n"
    "def say(message):\n"
    "    with lock:\n"
    "        print(json.dumps({'jsonrpc': '2.0', **message}), flush=True)\n"
    "def tell(method, **params): say({'method': method, 'params': params})\n"
    "def run(id, method, params):\n"
    "    if method in ('pid', 'same', 'other'): return str(os.getpid())\n"
    "    if method == 'echo': return params\n"
    "    if method == 'fail': raise ValueError('no such ' + os.getcwd() + '/x, /root/secret/x, ' + "
    "os.environ['KEY'])\n"
    "    if method == 'slow':\n"
    "        tell('progress', id=id, progress=1, total=2, message='waiting')\n"
    "        while id not in cancelled: time.sleep(0.01)\n"
    "        tell('log', level='warning', message='cancelled in ' + os.getcwd())\n"
    "        return 'never seen'\n"
    "    if method == 'wait': time.sleep(params['ms'] / 1000); return str(params['ms'])\n"
    "    if method == 'die': print('last words', file=sys.stderr, flush=True); os._exit(7)\n"
    "    if method == 'hang': os.kill(os.getpid(), 19); time.sleep(60)\n"
    "    if method == 'mute': os.close(1); time.sleep(60)\n"
    "    if method == 'junk': print('this is no JSON', flush=True); return 'fine'\n"
    "    if method == 'large': return 'x' * 200000\n"
    "    if method == 'huge': return 'x' * 2000000\n"
    "    if method == 'look': return open(params['file']).read()\n"
    "    if method == 'peek': return open('/root/.profile').read()\n"
    "def handle(id, method, params):\n"
    "    try: say({'id': id, 'result': run(id, method, params)})\n"
    "    except Exception as fault: say({'id': id, 'error': {'code': -32000, 'message': "
    "str(fault)}})\n"
    "for line in sys.stdin:\n"
    "    message = json.loads(line)\n"
    "    params = message.get('params', {})\n"
    "    if message['method'] == 'cancel': cancelled.add(params['id'])\n"
    "    else: threading.Thread(target=handle, args=(message['id'], message['method'], params), "
    "daemon=True).start()\n";

#define RUN                                                                                        \
  "\"run\":[\"/usr/bin/python3\",\"kept.py\"],\"keep\":true,\"env\":{\"KEY\":{\"file\":\"key\"}}"
#define INSIDE RUN ",\"inside\":{\"file\":\"docs\"}"

static const char config[] =
    "{\"tools\":{\n"
    " \"pid\":{" RUN "},\n"
    " \"same\":{" RUN "},\n"
    " \"other\":{\"run\":[\"/usr/bin/python3\",\"kept.py\",\"other\"],\"keep\":true},\n"
    " \"echo\":{\"args\":{\"a\":\"integer\",\"b?\":\"string[]\"}," RUN ",\"output\":\"json\"},\n"
    " \"fail\":{" RUN "},\n"
    " \"slow\":{" RUN "},\n"
    " \"wait\":{\"args\":{\"ms\":\"integer\"}," RUN "},\n"
    " \"die\":{" RUN "},\n"
    " \"hang\":{" RUN ",\"deadline_ms\":300},\n"
    " \"mute\":{" RUN "},\n"
    " \"junk\":{" RUN "},\n"
    " \"large\":{" RUN ",\"output_bytes\":1000},\n"
    " \"huge\":{" RUN "},\n"
    " \"look\":{\"args\":{\"file\":\"string\"}," INSIDE "},\n"
    " \"peek\":{" RUN "},\n"
    " \"brief\":{\"run\":[\"/usr/bin/python3\",\"brief.py\"],\"keep\":true,\"idle_ms\":100},\n"
    " \"deaf\":{\"run\":[\"/usr/bin/"
    "python3\",\"deaf.py\",\"1\"],\"keep\":true,\"stderr\":\"log\"},\n"
    " \"falls\":{\"run\":[\"sh\",\"-c\",\"exit 6 # 1\"],\"keep\":true},\n"
    " \"refused\":{\"run\":[\"sh\",\"-c\",\"echo x > /usr/no; exit 4\"],\"keep\":true},\n"
    " \"never\":{\"run\":[\"sh\",\"-c\",\"echo no way >&2; exit 3\"],\"keep\":true}}}";

static serving self;

static int start(void **state) {
  char path[512];
  (void)state;
  serving_make(&self, config);
  serving_file(&self, "kept.py", program);
  serving_file(&self, "brief.py",
               "import json, os, sys\n"
               "for line in sys.stdin:\n"
               "    print(json.dumps({'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': "
               "str(os.getpid())}), flush=True)\n");
  serving_file(&self, "deaf.py",
               "import os, signal, sys, time\n"
               "signal.signal(15, signal.SIG_IGN)\n"
               "sys.stdin.readline()\n"
               "os.close(1)\n"
               "print('closed it', file=sys.stderr, flush=True)\n"
               "time.sleep(60)\n");
  serving_file(&self, "key", "open-sesame-4711\n");
  serving_path(&self, "docs", path, sizeof path);
  assert_int_equal(mkdir(path, 0755), 0);
  serving_file(&self, "docs/a.md", "hello");
  serving_start(&self);
  return 0;
}

static int end(void **state) {
  static const char *const left[] = {"docs/a.md", "docs"};
  char path[512];
  (void)state;
  for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
    serving_path(&self, left[i], path, sizeof path);
    remove(path);
  }
  serving_end(&self);
  return 0;
}

/* The number that a tool answers with. */
static long number(const char *tool) {
  const char *answer = serving_call(&self, tool, "{}"), *text = strstr(answer, "\"text\":\"");
  assert_non_null(text);
  return strtol(text + strlen("\"text\":\""), NULL, 10);
}

static void one_process_answers_all_calls_of_its_tools(void **state) {
  (void)state;
  long pid = number("pid");
  assert_true(pid > 1);
  assert_int_equal(number("pid"), pid);
  assert_int_equal(number("same"), pid);
  assert_int_not_equal(number("other"), pid);
}

static void arguments_and_results_are_json(void **state) {
  (void)state;
  expect_in(serving_call(&self, "echo", "{\"a\":3,\"b\":[\"x\",\"y\"]}"),
            "\"structuredContent\":{\"a\":3,\"b\":[\"x\",\"y\"]}");
  expect_in(serving_call(&self, "junk", "{}"), "\"text\":\"fine\"");
  child_line_with(self.server.err, "peer=\"exec pid\"");
}

static void its_errors_are_told_without_secrets_and_paths(void **state) {
  (void)state;
  expect_in(serving_call(&self, "fail", "{}"),
            "\"text\":\"fail: no such x, [redacted], [redacted]\"}],\"isError\":true");
}

static void calls_overtake_each_other(void **state) {
  (void)state;
  int slow = serving_send_call(&self, "wait", "{\"ms\":500}");
  int quick = serving_send_call(&self, "wait", "{\"ms\":1}");
  expect_in(serving_answer(&self, quick), "\"text\":\"1\"");
  expect_in(serving_answer(&self, slow), "\"text\":\"500\"");
}

static void a_cancelled_call_is_cancelled_in_the_program(void **state) {
  char cancel[160], call[200];
  (void)state;
  long pid = number("pid");
  snprintf(call, sizeof call,
           "{\"name\":\"slow\",\"arguments\":{},\"_meta\":{\"progressToken\":\"p\"}}");
  int asked = serving_send(&self, "tools/call", call);
  expect_in(child_line_with(self.server.out, "notifications/progress"),
            "\"progress\":1,\"total\":2,\"message\":\"waiting\"");
  snprintf(cancel, sizeof cancel,
           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":"
           "%d}}\n",
           asked);
  child_send(self.server.in, cancel);
  const char *line = child_line_with(self.server.err, "a program says");
  expect_in(line, "WARN ");
  expect_in(line, "cancelled in ");
  expect_in(line, self.folder);
  assert_int_equal(number("pid"), pid);
}

static void what_dies_takes_its_calls_along_and_comes_again(void **state) {
  (void)state;
  long pid = number("pid");
  int waiting = serving_send_call(&self, "wait", "{\"ms\":60000}");
  int dying = serving_send_call(&self, "die", "{}");
  expect_in(serving_answer(&self, waiting),
            "wait: its program has ended (exit status 7)\\nstderr: last words\\n");
  expect_in(serving_answer(&self, dying), "die: its program has ended (exit status 7)");
  child_line_with(self.server.err, "a program that stays has ended");
  expect_gone(pid);
  assert_int_not_equal(number("pid"), pid);
}

static void one_that_says_nothing_any_more_is_ended(void **state) {
  (void)state;
  long pid = number("pid");
  expect_in(serving_call(&self, "hang", "{}"), "hang took longer than 300 ms (deadline_ms)");
  expect_gone(pid);
  assert_int_not_equal(number("pid"), pid);
}

/* It would read on, and nobody could hear its answers: it is another that is asked next. */
static void one_that_closes_its_output_is_ended_and_comes_again(void **state) {
  (void)state;
  static const char reason[] = "its program has ended (it closed its output and lived on; ";
  long pid = number("pid");
  int waiting = serving_send_call(&self, "wait", "{\"ms\":60000}");
  int mute = serving_send_call(&self, "mute", "{}");
  expect_in(serving_answer(&self, waiting), reason);
  expect_in(serving_answer(&self, mute), reason);
  child_line_with(self.server.err, "a program that stays has ended detail=pid: its program has "
                                   "ended (it closed its output and lived on; ");
  expect_gone(pid);
  assert_int_not_equal(number("pid"), pid);
}

static void an_answer_that_is_too_large_is_told(void **state) {
  (void)state;
  long pid = number("pid");
  expect_in(serving_call(&self, "large", "{}"),
            "large answered with more than 1000 bytes (output_bytes)");
  assert_int_equal(number("pid"), pid);
  expect_in(serving_call(&self, "huge", "{}"),
            "huge: it was stopped: an answer was larger than 1048576 bytes (output_bytes)");
  assert_int_not_equal(number("pid"), pid);
}

/* Whether it has ended since this was asked; the log says so before who waits is told. */
static bool never_has_ended(void) {
  struct pollfd log = {.fd = self.server.err, .events = POLLIN};
  bool ended = false;
  while (poll(&log, 1, 0) == 1)
    ended |= strstr(child_line(log.fd), "a program that stays has ended detail=never") != NULL;
  return ended;
}

/* Soon a call is answered at once, with the reason of before: the next start is too far away. */
static void one_that_always_dies_is_started_less_and_less_often(void **state) {
  (void)state;
  uint64_t began = child_now_ms();
  for (int i = 0; i < 5; i++)
    expect_in(serving_call(&self, "never", "{}"),
              "never: its program has ended (exit status 3)\\nstderr: no way");
  assert_true(child_now_ms() - began >= 100 + 200 + 400 + 800);
  assert_true(never_has_ended());
  int tries = 0;
  do expect_in(serving_call(&self, "never", "{}"), "its program has ended (exit status 3)");
  while (never_has_ended() && ++tries < 4); /* where we stood still until the next start */
  assert_true(tries < 4);
}

static void one_that_is_refused_something_is_told_to_be_confined(void **state) {
  (void)state;
  expect_in(serving_call(&self, "refused", "{}"),
            "refused is confined; \\\"allow\\\" in its definition");
}

static void an_idle_one_is_stopped_and_comes_again(void **state) {
  (void)state;
  long pid = number("brief");
  expect_gone(pid);
  assert_int_not_equal(number("brief"), pid);
}

static void it_is_confined_and_files_are_inside(void **state) {
  (void)state;
  expect_in(serving_call(&self, "peek", "{}"), "Permission denied");
  expect_in(serving_call(&self, "look", "{\"file\":\"a.md\"}"), "\"text\":\"hello\"");
  expect_in(serving_call(&self, "look", "{\"file\":\"../key\"}"), "no such file in the folder");
}

/* The configuration with a line before it, and every `from` in it replaced by `to`. */
static void reload(const char *head, const char *from, const char *to) {
  static char changed[2 * sizeof config];
  size_t len = (size_t)snprintf(changed, sizeof changed, "{%s", head);
  for (const char *at = config + 1, *found; *at; at = found) {
    found = from ? strstr(at, from) : NULL;
    size_t plain = found ? (size_t)(found - at) : strlen(at);
    len += (size_t)snprintf(changed + len, sizeof changed - len, "%.*s%s", (int)plain, at,
                            found ? to : "");
    found = found ? found + strlen(from) : at + plain;
  }
  serving_file(&self, "idem.json", changed);
  child_line_with(self.server.err, "configuration reloaded");
}

static void a_reload_that_leaves_it_alone_leaves_it_running(void **state) {
  (void)state;
  long pid = number("pid"), other = number("other");
  int running = serving_send_call(&self, "wait", "{\"ms\":700}");
  reload("\"queue\":99,", NULL, NULL);
  assert_int_equal(number("pid"), pid);
  expect_in(serving_answer(&self, running), "\"text\":\"700\"");
  reload("\"queue\":98,", ",\"other\"]", ",\"another\"]");
  expect_gone(other);
  assert_int_equal(number("pid"), pid);
  assert_int_not_equal(number("other"), other);
  assert_int_equal(number("same"), pid);
}

static void a_reload_that_changes_it_ends_it_after_its_calls(void **state) {
  (void)state;
  long pid = number("pid");
  int running = serving_send_call(&self, "wait", "{\"ms\":700}");
  reload("\"queue\":97,", NULL, NULL); /* passed on with its call, and changed then */
  reload("\"queue\":96,", "\"keep\":true,\"env\"", "\"keep\":true,\"stderr\":\"log\",\"env\"");
  long now = number("pid");
  assert_int_not_equal(now, pid);
  expect_in(serving_answer(&self, running), "\"text\":\"700\"");
  expect_gone(pid);
  reload("\"queue\":95,", NULL, NULL);
  expect_gone(now);
}

static void a_changed_secret_or_script_starts_it_anew(void **state) {
  char text[sizeof program + 16];
  (void)state;
  long pid = number("pid");
  serving_file(&self, "key", "open-sesame-4712\n");
  child_line_with(self.server.err, "configuration reloaded");
  expect_gone(pid);
  pid = number("pid");
  snprintf(text, sizeof text, "%s# changed\n", program);
  serving_file(&self, "kept.py", text);
  reload("\"queue\":94,", NULL, NULL);
  expect_gone(pid);
  assert_int_not_equal(number("pid"), pid);
}

static void one_that_dies_after_a_reload_comes_again(void **state) {
  (void)state;
  long pid = number("pid");
  int waiting = serving_send_call(&self, "wait", "{\"ms\":60000}");
  reload("\"queue\":93,", NULL, NULL);
  int dying = serving_send_call(&self, "die", "{}");
  expect_in(serving_answer(&self, waiting), "wait: its program has ended (exit status 7)");
  expect_in(serving_answer(&self, dying), "die: its program has ended (exit status 7)");
  expect_gone(pid);
  assert_int_not_equal(number("pid"), pid);
}

/* Its output has ended, how it ended is not known yet: it is not idle, and a reload does not make its end an expected one. */
static void who_waits_for_how_it_ended_is_told_after_a_reload(void **state) {
  (void)state;
  int waiting = serving_send_call(&self, "deaf", "{}");
  child_line_with(self.server.err, "closed it"); /* read in the turn that sees the output's end */
  reload("\"queue\":92,", "\"deaf.py\",\"1\"", "\"deaf.py\",\"2\"");
  expect_in(serving_answer(&self, waiting),
            "deaf: its program has ended (it closed its output and lived on; ");
}

/* The last call of an edition that a reload has replaced, while no process holds it. */
static void who_waits_for_a_start_may_be_cancelled_after_a_reload(void **state) {
  char cancel[160];
  (void)state;
  for (int i = 0; i < 4; i++)
    expect_in(serving_call(&self, "falls", "{}"), "falls: its program has ended (exit status 6)");
  int waiting = serving_send_call(&self, "falls", "{}");
  reload("\"queue\":91,", "exit 6 # 1", "exit 6 # 2");
  snprintf(cancel, sizeof cancel,
           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":"
           "%d}}\n",
           waiting);
  child_send(self.server.in, cancel);
  assert_true(number("pid") > 1);
}

static void it_is_gone_with_the_server(void **state) {
  (void)state;
  start(NULL);
  long pid = number("pid"), other = number("other");
  kill(self.server.pid, SIGKILL);
  expect_gone(pid);
  expect_gone(other);
  child_end(&self.server);
  child_remove_folder(self.folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_process_answers_all_calls_of_its_tools),
      cmocka_unit_test(arguments_and_results_are_json),
      cmocka_unit_test(its_errors_are_told_without_secrets_and_paths),
      cmocka_unit_test(calls_overtake_each_other),
      cmocka_unit_test(a_cancelled_call_is_cancelled_in_the_program),
      cmocka_unit_test(what_dies_takes_its_calls_along_and_comes_again),
      cmocka_unit_test(one_that_says_nothing_any_more_is_ended),
      cmocka_unit_test(one_that_closes_its_output_is_ended_and_comes_again),
      cmocka_unit_test(an_answer_that_is_too_large_is_told),
      cmocka_unit_test(one_that_always_dies_is_started_less_and_less_often),
      cmocka_unit_test(one_that_is_refused_something_is_told_to_be_confined),
      cmocka_unit_test(an_idle_one_is_stopped_and_comes_again),
      cmocka_unit_test(it_is_confined_and_files_are_inside),
      cmocka_unit_test(a_reload_that_leaves_it_alone_leaves_it_running),
      cmocka_unit_test(a_reload_that_changes_it_ends_it_after_its_calls),
      cmocka_unit_test(a_changed_secret_or_script_starts_it_anew),
      cmocka_unit_test(one_that_dies_after_a_reload_comes_again),
      cmocka_unit_test(who_waits_for_how_it_ended_is_told_after_a_reload),
      cmocka_unit_test(who_waits_for_a_start_may_be_cancelled_after_a_reload),
  };
  const struct CMUnitTest alone[] = {cmocka_unit_test(it_is_gone_with_the_server)};
  int failed = cmocka_run_group_tests(tests, start, end);
  return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
