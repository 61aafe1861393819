/* test_serve_redis.c - `idem serve --store redis...`: processes that name one Redis are one server to their clients. A session
 * made on one is used on another and outlives both; a stream that broke off is taken up elsewhere; while Redis is away who
 * needs it is refused, and who does not is served. */
#include "node.h"
#include "serving.h"
#include "support/redis_cluster.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char idem[] = IDEM_BIN_DIR "/idem";
static const char config[] =
    "{\"tools\":{\"show\":{\"args\":{\"file\":\"string\"},\"run\":[\"cat\",\"--\",\"{file}\"]},"
    "\"steps\":{\"run\":[\"sh\",\"-c\",\"echo progress: 1/2 half >&2; echo done\"],"
    "\"progress\":true}}}";

typedef struct world {
  serving files;
  redis_server redis;
  char store[160];
} world;

static void make_world(world *self, const char *const *redis_options) {
  serving_make(&self->files, config);
  assert_true(redis_server_start(&self->redis, redis_options));
  snprintf(self->store, sizeof self->store, "redis+unix:%s", self->redis.socket);
}

static void end_world(world *self) {
  redis_server_stop(&self->redis);
  child_remove_folder(self->files.folder);
}

static node start(const world *in, const char *store) {
  char path[300];
  serving_path(&in->files, "idem.json", path, sizeof path);
  return node_serve(path, store, NULL);
}

static void open_session(const node *self, char session[80]) {
  node_open_session(self, "2025-11-25", "{}", session);
}

static const char *list_tools(const node *self, const char *session) {
  return node_post(self, session, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}");
}

static void expect_served(const node *self, const char *session) {
  const char *answer = list_tools(self, session);
  expect_in(answer, " 200 ");
  expect_in(answer, "\"id\":7,\"result\":{\"tools\":[{\"name\":\"s");
}

static void a_session_is_every_nodes(void **state) {
  world in;
  char session[80];
  (void)state;
  make_world(&in, NULL);
  node one = start(&in, in.store), other = start(&in, in.store);
  open_session(&one, session);
  expect_served(&other, session);
  expect_in(
      node_post(&other, "0123456789abcdef", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"),
      " 404 ");
  node_stop(&one, SIGKILL);
  expect_served(&other, session);
  node_stop(&other, SIGTERM);
  node third = start(&in, in.store);
  expect_served(&third, session);
  node_stop(&third, SIGTERM);
  end_world(&in);
}

/* Ended at one node, it is over at the others. */
static void a_session_that_was_ended_is_over_everywhere(void **state) {
  world in;
  char session[80], headers[128];
  (void)state;
  make_world(&in, NULL);
  node one = start(&in, in.store), other = start(&in, in.store);
  open_session(&one, session);
  expect_served(&other, session);
  snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\n", session);
  expect_in(node_rest(node_send(&other, "DELETE /mcp", headers, "")), "HTTP/1.1 20");
  expect_in(list_tools(&one, session), " 404 ");
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  end_world(&in);
}

/* The events of a call that one node ran, from another: the client saw the first of them and lost its connection. */
static void a_stream_is_taken_up_at_another_node(void **state) {
  world in;
  char session[80], id[64];
  (void)state;
  make_world(&in, NULL);
  node one = start(&in, in.store), other = start(&in, in.store);
  open_session(&one, session);
  const char *answer = node_post(
      &one, session,
      "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"steps\","
      "\"arguments\":{},\"_meta\":{\"progressToken\":\"p\"}}}");
  expect_in(answer, "notifications/progress");
  expect_in(answer, "done");
  const char *first = strstr(answer, "id: ");
  assert_non_null(first);
  assert_int_equal(sscanf(first, "id: %63[!-~]", id), 1);
  int fd = node_listen(&other, session, id);
  expect_in(child_line_with(fd, "\"id\":5"), "done");
  close(fd);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  end_world(&in);
}

/* ------------------------------------------------------------ tasks and news */

static node start_shared(const world *in) {
  return node_of(CHILD(SHARED, "http://127.0.0.1:0/mcp", in->store));
}

static const char *ask_task(const node *self, const char *session, const char *method,
                            const char *id) {
  char body[256];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"%s\",\"params\":{\"taskId\":\"%s\"}}",
           method, id);
  return node_post(self, session, body);
}

static void begin_task(const node *self, const char *session, int ms, char id[33]) {
  char body[256];
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/call\",\"params\":{\"name\":\"wait\","
           "\"arguments\":{\"ms\":%d},\"task\":{}}}",
           ms);
  const char *at = strstr(node_post(self, session, body), "\"taskId\":\"");
  assert_non_null(at);
  snprintf(id, 33, "%s", at + strlen("\"taskId\":\""));
}

static void a_task_is_asked_for_and_cancelled_at_another_node(void **state) {
  world in;
  char session[80], quick[33], slow[33];
  (void)state;
  make_world(&in, NULL);
  node one = start_shared(&in), other = start_shared(&in);
  open_session(&one, session);
  begin_task(&one, session, 600000, slow);
  begin_task(&one, session, 1, quick);
  expect_in(ask_task(&other, session, "tasks/get", slow), "\"status\":\"working\"");
  while (strstr(ask_task(&other, session, "tasks/get", quick), "\"status\":\"working\"")) continue;
  expect_in(ask_task(&other, session, "tasks/result", quick), "waited");
  expect_in(ask_task(&other, session, "tasks/cancel", slow), "\"status\":\"cancelled\"");
  while (!strstr(ask_task(&one, session, "tasks/get", slow), "\"status\":\"cancelled\"")) continue;
  node_stop(&one, SIGKILL);
  expect_in(ask_task(&other, session, "tasks/result", quick), "waited");
  node_stop(&other, SIGTERM);
  end_world(&in);
}

static void await_status(const node *self, const char *session, const char *id,
                         const char *status) {
  uint64_t until = child_now_ms() + 60000;
  while (!strstr(ask_task(self, session, "tasks/get", id), status)) {
    assert_true(child_now_ms() < until);
    poll(NULL, 0, 5);
  }
}

/* Redis lost its last writes: the task's end was among them, and who ran it says so again to who never heard of it. */
static void a_task_whose_end_was_lost_is_over_all_the_same(void **state) {
  static const char over[] = "\"status\":\"cancelled\"";
  world in;
  char session[80], id[33];
  (void)state;
  make_world(&in, NULL);
  node one = start_shared(&in), other = start_shared(&in);
  open_session(&one, session);
  begin_task(&one, session, 600000, id);
  assert_string_equal(redis_server_ask(&in.redis, "SAVE"), "+OK");
  expect_in(ask_task(&one, session, "tasks/cancel", id), over);
  await_status(&other, session, id, over);
  redis_server_kill(&in.redis, SIGKILL);
  assert_true(redis_server_again(&in.redis));
  node third = start_shared(&in);
  await_status(&third, session, id, over);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  node_stop(&third, SIGTERM);
  end_world(&in);
}

/* What ends within the grace is kept before its process goes; of what does not it is said why. */
static void tasks_have_the_grace_of_their_process(void **state) {
  world in;
  char session[80], quick[33], slow[33];
  (void)state;
  make_world(&in, NULL);
  node one = start_shared(&in), other = start_shared(&in);
  open_session(&one, session);
  begin_task(&one, session, 700, quick);
  node_stop(&one, SIGTERM);
  expect_in(ask_task(&other, session, "tasks/get", quick), "\"status\":\"completed\"");
  expect_in(ask_task(&other, session, "tasks/result", quick), "waited");
  node third = start_shared(&in);
  begin_task(&third, session, 600000, slow);
  node_stop(&third, SIGTERM);
  expect_in(ask_task(&other, session, "tasks/get", slow), "\"status\":\"failed\"");
  expect_in(ask_task(&other, session, "tasks/result", slow), "process-ended");
  node_stop(&other, SIGTERM);
  end_world(&in);
}

/* A change that is told at one node is heard by who listens at another. */
static void news_reach_the_listeners_of_other_nodes(void **state) {
  world in;
  char session[80];
  (void)state;
  make_world(&in, NULL);
  node one = start_shared(&in), other = start_shared(&in);
  open_session(&other, session);
  expect_in(
      node_post(&other, session,
                "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"resources/subscribe\",\"params\":{"
                "\"uri\":\"test:thing\"}}"),
      "\"result\"");
  int fd = node_listen(&other, session, NULL);
  expect_in(
      node_post(&one, session,
                "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/call\",\"params\":{\"name\":"
                "\"change\",\"arguments\":{}}}"),
      "told");
  expect_in(child_line_with(fd, "notifications/resources/updated"), "test:thing");
  close(fd);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  end_world(&in);
}

/* ---------------------------------------------------------------- Redis away */

static const char *metrics_of(const node *self) {
  return node_rest(node_send(self, "GET /metrics", "", ""));
}

static const char *health_of(const node *self) {
  return node_rest(node_send(self, "GET /healthz", "", ""));
}

static void await_health(const node *self, const char *status) {
  uint64_t until = child_now_ms() + 60000;
  while (!strstr(health_of(self), status)) {
    assert_true(child_now_ms() < until);
    poll(NULL, 0, 5);
  }
}

static void await_ready(const node *self) { await_health(self, " 200 "); }

/* Its lease is renewed so seldom that readiness must follow the connection. */
static void while_redis_is_away_who_needs_it_is_refused(void **state) {
  static const char *const durable[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
  world in;
  char session[80], path[300];
  (void)state;
  make_world(&in, durable);
  serving_path(&in.files, "idem.json", path, sizeof path);
  node self = node_serve(path, in.store, "--lease-ms", "600000", NULL);
  open_session(&self, session);
  redis_server_kill(&in.redis, SIGKILL);
  expect_in(child_line_with(self.server.err, "the store is lost"), "redis+unix:");
  expect_in(health_of(&self), " 503 "); /* at once, and whatever else happens */
  const char *refused = list_tools(&self, session);
  expect_in(refused, " 503 ");
  expect_in(refused, "Retry-After:");
  expect_in(refused, "\"id\":7");
  const char *bad = node_post(&self, session, "[]"); /* which would be as bad later */
  expect_in(bad, " 400 ");
  assert_null(strstr(bad, "Retry-After:"));
  expect_in(
      node_post(&self, NULL,
                "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"t\",\"version\":\"1\"},"
                "\"io.modelcontextprotocol/clientCapabilities\":{}}}}"),
      "\"id\":8");
  expect_in(metrics_of(&self), "\nidem_store_connected 0\n");
  assert_true(redis_server_again(&in.redis));
  expect_in(child_line_with(self.server.err, "the store is connected"), "redis+unix:");
  await_ready(&self);
  expect_served(&self, session);
  expect_in(metrics_of(&self), "\nidem_store_connected 1\n");
  expect_in(metrics_of(&self), "\nidem_store_losses_total 1\n");
  node_stop(&self, SIGTERM);
  end_world(&in);
}

static void await_replica(const redis_server *primary) {
  uint64_t until = child_now_ms() + 60000;
  while (strcmp(redis_server_ask(primary, "WAIT 1 100"), ":1") != 0)
    assert_true(child_now_ms() < until);
}

/* Nothing that needs a record is served then: an operator sees it before clients say so. */
static void where_too_few_replicas_answer_a_node_is_not_ready(void **state) {
  world in;
  redis_server replica;
  char port[8], path[300], store[200];
  (void)state;
  snprintf(port, sizeof port, "%u", redis_server_free_port());
  const char *primary[] = {"--port", port, "--repl-diskless-sync-delay", "0", NULL};
  const char *follower[] = {"--replicaof", "127.0.0.1", port, NULL};
  make_world(&in, primary);
  assert_true(redis_server_start(&replica, follower));
  await_replica(&in.redis);
  snprintf(store, sizeof store, "%s?replicas=1", in.store);
  serving_path(&in.files, "idem.json", path, sizeof path);
  node self = node_serve(path, store, "--lease-ms", "1000", NULL);
  await_health(&self, " 200 ");
  redis_server_kill(&replica, SIGKILL);
  await_health(&self, " 503 ");
  expect_in(child_line_with(self.server.err, "the store does not answer"), "lacks replicas");
  expect_in(metrics_of(&self), "\nidem_store_unavailable 1\n");
  assert_true(redis_server_again(&replica));
  await_health(&self, " 200 ");
  expect_in(metrics_of(&self), "\nidem_store_unavailable 0\n");
  node_stop(&self, SIGTERM);
  redis_server_stop(&replica);
  end_world(&in);
}

/* Of whatever: who comes is told to come again, and nobody's session ends for it. */
static void a_full_redis_refuses_who_comes_and_keeps_who_is_there(void **state) {
  (void)state;
  char session[80];
  world in;
  make_world(&in, NULL);
  node self = start(&in, in.store);
  open_session(&self, session);
  assert_string_equal(redis_server_ask(&in.redis, "CONFIG SET maxmemory 1"), "+OK");
  for (int i = 0; i < 3; i++) {
    const char *refused = node_post(
        &self, NULL,
        "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
    expect_in(refused, " 503 ");
    expect_in(refused, "Retry-After:");
    expect_in(refused, "\"reason\":\"unavailable\"");
  }
  expect_in(child_line_with(self.server.err, "a session was refused"), "no room");
  assert_string_equal(redis_server_ask(&in.redis, "CONFIG SET maxmemory 0"), "+OK");
  expect_served(&self, session);
  node_stop(&self, SIGTERM);
  end_world(&in);
}

/* --------------------------------------------------------------------- refusals */

static void expect_refused(const world *in, const char *store, const char *reason) {
  char path[300];
  serving_path(&in->files, "idem.json", path, sizeof path);
  child server = CHILD(idem, "serve", path, "--http", "127.0.0.1:0", "--store", store);
  expect_in(child_rest(server.err), reason);
  assert_int_equal(child_end(&server), 1);
}

static void a_store_that_cannot_be_is_refused_with_the_reason(void **state) {
  world in;
  char text[256];
  (void)state;
  make_world(&in, NULL);
  expect_refused(&in, "redis+unix:/nowhere/at/all", "No such file");
  expect_refused(&in, "redis://user:secret@127.0.0.1", "does not belong in a URL");
  expect_refused(&in, "redis://user@127.0.0.1", "password_file or password_env names");
  expect_refused(&in, "redis://127.0.0.1?password_file=/nowhere",
                 "used: No such file or directory");
  expect_refused(&in, "redis://127.0.0.1/x", "a database is a number");
  snprintf(text, sizeof text, "127.0.0.1:%u", redis_server_free_port());
  char url[300];
  snprintf(url, sizeof url, "redis://%s", text);
  expect_refused(&in, url, "Connection refused");
  redis_server_ask(&in.redis, "CONFIG SET requirepass sesame-open");
  expect_refused(&in, in.store, "NOAUTH");
  end_world(&in);
}

/* -------------------------------------------------------------------- a cluster */

#define SESSIONS 30

static void name_store(char url[64], const redis_cluster *cluster, int at, const char *more) {
  snprintf(url, 64, "redis://127.0.0.1:%s%s", cluster->ports[at], more);
}

static void expect_on_every_primary(const redis_cluster *cluster) {
  long all = 0;
  for (int i = 0; i < 3; i++) {
    long there = redis_cluster_keys(cluster, i, "{idem*}:r0:*");
    assert_true(there > 0);
    all += there;
  }
  assert_int_equal(all, SESSIONS);
}

/* Refused while its primary is away, and there when the replica, which has all that was acknowledged, has taken over. */
static void expect_served_in_the_end(const node *self, const char *session) {
  const char *answer;
  while (!strstr(answer = list_tools(self, session), " 200 ")) expect_in(answer, " 503 ");
}

static void a_store_in_a_cluster_is_on_every_primary(void **state) {
  world in;
  redis_cluster cluster;
  char urls[3][64], sessions[SESSIONS][80];
  (void)state;
  serving_make(&in.files, config);
  redis_cluster_start(&cluster);
  for (int i = 0; i < 3; i++) name_store(urls[i], &cluster, i, i == 2 ? "?parts=5" : "?replicas=1");
  node one = start(&in, urls[0]), other = start(&in, urls[1]);
  for (int i = 0; i < SESSIONS; i++) {
    open_session(i % 2 ? &one : &other, sessions[i]);
    expect_served(i % 2 ? &other : &one, sessions[i]);
  }
  expect_on_every_primary(&cluster);
  expect_refused(&in, urls[2], "another number of parts than it was named with: parts=12");
  redis_server_kill(&cluster.nodes[1], SIGKILL);
  expect_in(child_line_with(one.server.err, "a part of the store is lost"), "redis://127.0.0.1:");
  expect_in(node_rest(node_send(&one, "GET /healthz", "", "")), " 200 ");
  expect_in(metrics_of(&one), "\nidem_store_connected 0\n");
  redis_cluster_mourn(&cluster, 1);
  for (int i = 0; i < SESSIONS; i++) expect_served_in_the_end(&one, sessions[i]);
  child_line_with(one.server.err, "the store is connected");
  expect_in(metrics_of(&one), "\nidem_store_connected 1\n");
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  redis_cluster_end(&cluster);
  child_remove_folder(in.files.folder);
}

/* ------------------------------------------------------------------------ TLS */

static void make_secure_world(world *self, char port[8], char cert[300], char key[300]) {
  serving_make(&self->files, config);
  serving_path(&self->files, "cert.pem", cert, 300);
  serving_path(&self->files, "key.pem", key, 300);
  child_make_certificate(cert, key, "localhost", "DNS:localhost");
  snprintf(port, 8, "%u", redis_server_free_port());
  const char *options[] = {
      "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients",
      "no",         NULL};
  assert_true(redis_server_start(&self->redis, options));
}

static void redis_behind_tls_must_show_its_certificate(void **state) {
  world in;
  char port[8], cert[300], key[300], store[700], session[80];
  (void)state;
  make_secure_world(&in, port, cert, key);
  snprintf(store, sizeof store, "rediss://localhost:%s?ca=%s", port, cert);
  node one = start(&in, store), other = start(&in, store);
  open_session(&one, session);
  expect_served(&other, session);
  node_stop(&one, SIGTERM);
  node_stop(&other, SIGTERM);
  snprintf(store, sizeof store, "rediss://localhost:%s", port);
  expect_refused(&in, store, "certificate");
  snprintf(store, sizeof store, "rediss://127.0.0.1:%s?ca=%s", port, cert);
  expect_refused(&in, store, "certificate");
  end_world(&in);
}

static void write_word(const world *in, const char *word, char path[300]) {
  serving_file(&in->files, "word.txt", word);
  serving_path(&in->files, "word.txt", path, 300);
  assert_int_equal(chmod(path, 0600), 0);
}

/* The log has said that the connection broke; what is in the way of another is said once, and over when the file has the new password. */
static void a_password_that_was_changed_is_read_again(void **state) {
  world in;
  char path[300], store[600], session[80];
  (void)state;
  make_world(&in, NULL);
  redis_server_ask(&in.redis, "ACL SETUSER idem on >word-one ~* &* +@all");
  write_word(&in, "word-one\n", path);
  snprintf(store, sizeof store, "redis+unix:idem@%s?password_file=%s", in.redis.socket, path);
  node self = start(&in, store);
  open_session(&self, session);
  redis_server_ask(&in.redis, "ACL SETUSER idem resetpass >word-two");
  redis_server_ask(&in.redis, "CLIENT KILL TYPE pubsub");
  redis_server_ask(&in.redis, "CLIENT KILL TYPE normal");
  expect_in(child_line_with(self.server.err, "the store cannot be reached"), "WRONGPASS");
  write_word(&in, "word-two\n", path);
  const char *next = child_line_with(self.server.err, "the store ");
  while (!strstr(next, "the store is connected")) {
    if (strstr(next, "WRONGPASS")) fail_msg("said again: %s", next);
    next = child_line_with(self.server.err, "the store ");
  }
  await_ready(&self);
  expect_served(&self, session);
  node_stop(&self, SIGTERM);
  end_world(&in);
}

static void no_program_reads_the_password(void **state) {
  world in;
  char path[300], store[600], session[80];
  (void)state;
  make_world(&in, NULL);
  assert_string_equal(redis_server_ask(&in.redis, "CONFIG SET requirepass sesame-open"), "+OK");
  serving_file(&in.files, "word.txt", "sesame-open\n");
  serving_path(&in.files, "word.txt", path, sizeof path);
  assert_int_equal(chmod(path, 0600), 0);
  snprintf(store, sizeof store, "%s?password_file=%s", in.store, path);
  node self = start(&in, store);
  open_session(&self, session);
  expect_in(
      node_post(&self, session,
                "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":"
                "\"show\",\"arguments\":{\"file\":\"word.txt\"}}}"),
      "Permission denied");
  node_stop(&self, SIGTERM);
  end_world(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_session_is_every_nodes),
      cmocka_unit_test(a_session_that_was_ended_is_over_everywhere),
      cmocka_unit_test(a_stream_is_taken_up_at_another_node),
      cmocka_unit_test(a_task_is_asked_for_and_cancelled_at_another_node),
      cmocka_unit_test(a_task_whose_end_was_lost_is_over_all_the_same),
      cmocka_unit_test(tasks_have_the_grace_of_their_process),
      cmocka_unit_test(news_reach_the_listeners_of_other_nodes),
      cmocka_unit_test(a_store_in_a_cluster_is_on_every_primary),
      cmocka_unit_test(redis_behind_tls_must_show_its_certificate),
      cmocka_unit_test(while_redis_is_away_who_needs_it_is_refused),
      cmocka_unit_test(where_too_few_replicas_answer_a_node_is_not_ready),
      cmocka_unit_test(a_full_redis_refuses_who_comes_and_keeps_who_is_there),
      cmocka_unit_test(a_store_that_cannot_be_is_refused_with_the_reason),
      cmocka_unit_test(a_password_that_was_changed_is_read_again),
      cmocka_unit_test(no_program_reads_the_password),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
