/* test_kill.c - a server with a SQLite store is killed again and again while it works: what was answered is there
 * afterwards, keys hold, tasks that were over are over, those that ran have failed, and the file is sound. IDEM_KILLS says how
 * often (`make faults`: 200 times). Called with a store's URL and a file for its runs it is that server. */
#include "child.h"

#include <idem/mcp.h>
#include <idem/uv.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEASE_MS 500
#define RECOVERY_MS 1000
#define CALLS 8 /* at once, when the server is killed */

/* ------------------------------------------------------------------- the server */

static int witness = -1; /* a file with a line for each run, which outlives whoever ran it */

static void stamp(idem_request *request, yyjson_val *arguments, void *user) {
  static unsigned count;
  char text[64], line[128];
  (void)user;
  snprintf(text, sizeof text, "stamp %ld.%u;", (long)getpid(), ++count);
  int len = snprintf(line, sizeof line, "%s\n", yyjson_get_str(yyjson_obj_get(arguments, "call")));
  if (write(witness, line, (size_t)len) != len) abort();
  idem_tool_text(request, text, strlen(text));
}

static void hang(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_request_keep(request);
}

static const char arguments_schema[] =
    "{\"type\":\"object\",\"properties\":{\"call\":{\"type\":\"string\"}}}";

static int serve(const char *store, const char *runs) {
  static const char *const urls[] = {"http://127.0.0.1:0/mcp"};
  idem_server *server;
  idem_server_opts opts = {.name = "kill", .version = "1", .lease_ms = LEASE_MS};
  idem_server_os(&opts);
  witness = open(runs, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (witness < 0) return 1;
  if (idem_server_new(&opts, &server) != IDEM_OK) return 1;
  const idem_tool tools[] = {
      {.name = "stamp", .input_schema = arguments_schema, .fn = stamp},
      {.name = "job", .input_schema = arguments_schema, .fn = stamp, .task = IDEM_TASK_OPTIONAL},
      {.name = "hang", .input_schema = arguments_schema, .fn = hang, .task = IDEM_TASK_OPTIONAL}};
  for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
    if (idem_server_add_tool(server, &tools[i], NULL, 0) != IDEM_OK) return 1;
  idem_serve_opts run = {.server = server, .store = store};
  int code = idem_run(urls, 1, &run);
  idem_server_free(server);
  return code;
}

/* --------------------------------------------------------------------- the world */

typedef struct world {
  char folder[256], file[300], store[320], runs[300];
  child server;
  char url[80], host[64];
  unsigned round;
  uint64_t
      slowest_ms; /* from its start until it has answered with what a key had, but for waiting for a processor */
} world;

static void start(world *self) {
  char self_path[] = "/proc/self/exe", line[128];
  self->server = CHILD(self_path, self->store, self->runs);
  child_listening(&self->server, line, sizeof line);
  assert_int_equal(sscanf(line, "http://%63[^/]", self->host), 1);
  snprintf(self->url, sizeof self->url, "tcp://%s", self->host);
}

static void kill_it(world *self) {
  kill(self->server.pid, SIGKILL);
  assert_int_equal(child_end(&self->server), -SIGKILL);
}

static int send_to(const world *self, const char *method, const char *named, const char *key,
                   const char *members) {
  char body[640], head[700], name[160];
  int fd = child_connect(self->url);
  snprintf(name, sizeof name, named ? "Mcp-Name: %s\r\n" : "%s", named ? named : "");
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s\"_meta\":{"
           "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"idem/key\":\"%s\","
           "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"
           "\"io.modelcontextprotocol/tasks\":{}}}}}}",
           method, members, key);
  snprintf(head, sizeof head,
           "POST /mcp HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: "
           "application/json\r\nAccept: application/json, text/event-stream\r\n"
           "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%sContent-Length: %zu\r\n\r\n",
           self->host, method, name, strlen(body));
  child_send(fd, head);
  child_send(fd, body);
  return fd;
}

static void expect_in(const char *text, const char *wanted) {
  if (!strstr(text, wanted)) fail_msg("no %s in: %s", wanted, text);
}

static const char *rest(int fd) {
  const char *answer = child_rest(fd);
  close(fd);
  return answer;
}

/* What ran is told by tool and key. */
static int send_call(const world *self, const char *tool, const char *key) {
  char members[160];
  snprintf(members, sizeof members, "\"name\":\"%s\",\"arguments\":{\"call\":\"%s %s\"},", tool,
           tool, key);
  return send_to(self, "tools/call", tool, key, members);
}

static const char *call(const world *self, const char *tool, const char *key) {
  return rest(send_call(self, tool, key));
}

/* How often the tool ran for a key, whatever became of the processes that ran it. */
static unsigned runs_of(const world *self, const char *tool, const char *key) {
  char wanted[96], line[128];
  unsigned count = 0;
  FILE *file = fopen(self->runs, "re");
  assert_non_null(file);
  snprintf(wanted, sizeof wanted, "%s %s\n", tool, key);
  while (fgets(line, sizeof line, file)) count += strcmp(line, wanted) == 0;
  fclose(file);
  return count;
}

/* Up to its end; "" where there is none. */
static void copy_after(const char *answer, const char *lead, char end, char *out, size_t size) {
  const char *at = strstr(answer, lead);
  size_t len = 0;
  if (at) at += strlen(lead);
  while (at && at[len] && at[len] != end && len + 1 < size) len++;
  memcpy(out, at ? at : "", len);
  out[len] = '\0';
}

static const char *task(const world *self, const char *id) {
  char members[80];
  snprintf(members, sizeof members, "\"taskId\":\"%s\",", id);
  return rest(send_to(self, "tasks/get", id, "", members));
}

/* ----------------------------------------------------------------------- a round */

typedef struct kept {
  char key[32], stamp[64]; /* acknowledged */
  char job[40], hang[40];  /* tasks: over, running */
  int open[CALLS];
} kept;

static void work(const world *self, kept *it) {
  char hang_key[40];
  snprintf(it->key, sizeof it->key, "round-%u", self->round);
  snprintf(hang_key, sizeof hang_key, "hang-%u", self->round);
  copy_after(call(self, "stamp", it->key), "stamp ", ';', it->stamp, sizeof it->stamp);
  assert_true(it->stamp[0]);
  copy_after(call(self, "job", it->key), "\"taskId\":\"", '"', it->job, sizeof it->job);
  copy_after(call(self, "hang", hang_key), "\"taskId\":\"", '"', it->hang, sizeof it->hang);
  assert_true(it->job[0] && it->hang[0]);
  for (int tries = 0; !strstr(task(self, it->job), "\"status\":\"completed\""); tries++)
    assert_true(tries < 1000);
  for (int i = 0; i < CALLS; i++) { /* it is killed while these are under way */
    char key[48];
    snprintf(key, sizeof key, "%s-%d", it->key, i);
    it->open[i] = send_call(self, "stamp", key);
  }
}

/* Those under way: an answer that came is the one that stays; one that did not come is unknown, or that of the only run, which
 * may be the killed process's. */
static void check_open(const world *self, kept *it) {
  for (int i = 0; i < CALLS; i++) {
    char key[48], first[64], again[64], third[64];
    snprintf(key, sizeof key, "%s-%d", it->key, i);
    copy_after(rest(it->open[i]), "stamp ", ';', first, sizeof first);
    const char *answer = call(self, "stamp", key);
    copy_after(answer, "stamp ", ';', again, sizeof again);
    if (first[0]) assert_string_equal(first, again);
    if (!again[0]) expect_in(answer, "outcome-unknown");
    copy_after(call(self, "stamp", key), "stamp ", ';', third, sizeof third);
    assert_string_equal(again, third);
    unsigned ran = runs_of(self, "stamp", key);
    if (ran > 1 || (again[0] && ran == 0)) fail_msg("%s ran %u times", key, ran);
  }
}

static void check_file(const world *self) {
  sqlite3 *database;
  sqlite3_stmt *row;
  assert_int_equal(sqlite3_open(self->file, &database), SQLITE_OK);
  sqlite3_busy_timeout(database, 10000);
  assert_int_equal(sqlite3_prepare_v2(database, "PRAGMA integrity_check", -1, &row, NULL),
                   SQLITE_OK);
  assert_int_equal(sqlite3_step(row), SQLITE_ROW);
  assert_string_equal((const char *)sqlite3_column_text(row, 0), "ok");
  sqlite3_finalize(row);
  sqlite3_close(database);
}

/* Where the machine is busy with others neither we nor the server can help it. */
static uint64_t recovery_ms(const world *self, uint64_t began_ms, uint64_t waited_ms) {
  uint64_t took = child_now_ms() - began_ms;
  uint64_t waited = child_waited_ms(self->server.pid) + child_waited_ms(getpid()) - waited_ms;
  return took > waited ? took - waited : 0;
}

static void check(world *self, kept *it, uint64_t began_ms, uint64_t waited_ms) {
  char stamp_now[64];
  copy_after(call(self, "stamp", it->key), "stamp ", ';', stamp_now, sizeof stamp_now);
  uint64_t took = recovery_ms(self, began_ms, waited_ms);
  if (took > self->slowest_ms) self->slowest_ms = took;
  if (took >= RECOVERY_MS) fail_msg("recovered after %llu ms", (unsigned long long)took);
  assert_string_equal(stamp_now, it->stamp);
  assert_int_equal(runs_of(self, "stamp", it->key), 1);
  assert_int_equal(runs_of(self, "job", it->key), 1);
  expect_in(task(self, it->job), "\"status\":\"completed\"");
  check_open(self, it);
  uint64_t until = child_now_ms() + 60000;
  while (!strstr(task(self, it->hang), "\"status\":\"failed\"")) {
    assert_true(child_now_ms() < until);
    poll(NULL, 0, 20);
  }
  expect_in(task(self, it->hang), "has ended");
}

static unsigned rounds(void) {
  const char *text = getenv("IDEM_KILLS");
  return text ? (unsigned)strtoul(text, NULL, 10) : 4;
}

static void what_was_answered_survives_kill(void **state) {
  world self = {.round = 0};
  (void)state;
  child_make_folder(self.folder, sizeof self.folder);
  snprintf(self.file, sizeof self.file, "%s/store.db", self.folder);
  snprintf(self.store, sizeof self.store, "sqlite:%s", self.file);
  snprintf(self.runs, sizeof self.runs, "%s/runs", self.folder);
  start(&self);
  for (; self.round < rounds(); self.round++) {
    kept it;
    work(&self, &it);
    poll(NULL, 0, (int)(self.round % 7)); /* at another moment each time */
    kill_it(&self);
    uint64_t began = child_now_ms(), waited = child_waited_ms(getpid());
    start(&self);
    check(&self, &it, began, waited);
    check_file(&self);
  }
  kill(self.server.pid, SIGTERM);
  assert_int_equal(child_end(&self.server), 0);
  check_file(&self);
  print_message("%u times killed; at most %llu ms from its start to an answer kept before\n",
                self.round, (unsigned long long)self.slowest_ms);
  child_remove_folder(self.folder);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_answered_survives_kill)};
  if (argc > 2) return serve(argv[1], argv[2]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
