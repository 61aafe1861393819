/* test_serve_redis.c - `idem serve --store redis...`: processes that name one Redis are one server to their clients. A session
 * made on one is used on another and outlives both; a stream that broke off is taken up elsewhere; while Redis is away who
 * needs it is refused, and who does not is served. */
#include "serving.h"
#include "support/redis_server.h"

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

typedef struct node {
  child server;
  char host[64]; /* 127.0.0.1:PORT */
} node;

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
  node self;
  char url[128], path[300];
  serving_path(&in->files, "idem.json", path, sizeof path);
  self.server = CHILD(idem, "serve", path, "--http", "127.0.0.1:0", "--store", store);
  child_listening(&self.server, url, sizeof url);
  assert_int_equal(sscanf(url, "http://%63[^/]", self.host), 1);
  return self;
}

static void stop(node *self, int signal) {
  kill(self->server.pid, signal);
  assert_int_equal(child_end(&self->server), signal == SIGKILL ? -SIGKILL : 0);
}

/* One request, one connection, which is the caller's. */
static int send_request(const node *self, const char *verb, const char *headers, const char *body) {
  char url[80], head[768];
  snprintf(url, sizeof url, "tcp://%s", self->host);
  int fd = child_connect(url);
  snprintf(head, sizeof head,
           "%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\n%sContent-Length: %zu\r\n\r\n",
           verb, self->host, headers, strlen(body));
  child_send(fd, head);
  child_send(fd, body);
  return fd;
}

static const char *post(const node *self, const char *session, const char *body) {
  char headers[128] = "";
  if (session) snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\n", session);
  int fd = send_request(self, "POST /mcp", headers, body);
  const char *answer = child_rest(fd);
  close(fd);
  return answer;
}

static void open_session(const node *self, char session[80]) {
  const char *answer = post(
      self, NULL,
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
      "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
  const char *header = strcasestr(answer, "mcp-session-id:");
  assert_non_null(header);
  assert_int_equal(sscanf(header + strlen("mcp-session-id:"), " %79[!-~]", session), 1);
  expect_in(post(self, session, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
            " 202 ");
}

static const char *list_tools(const node *self, const char *session) {
  return post(self, session, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}");
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
  expect_in(post(&other, "0123456789abcdef", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"),
            " 404 ");
  stop(&one, SIGKILL);
  expect_served(&other, session);
  stop(&other, SIGTERM);
  node third = start(&in, in.store);
  expect_served(&third, session);
  stop(&third, SIGTERM);
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
  int fd = send_request(&other, "DELETE /mcp", headers, "");
  expect_in(child_rest(fd), "HTTP/1.1 20");
  close(fd);
  expect_in(list_tools(&one, session), " 404 ");
  stop(&one, SIGTERM);
  stop(&other, SIGTERM);
  end_world(&in);
}

/* The events of a call that one node ran, from another: the client saw the first of them and lost its connection. */
static void a_stream_is_taken_up_at_another_node(void **state) {
  world in;
  char session[80], headers[256], id[64];
  (void)state;
  make_world(&in, NULL);
  node one = start(&in, in.store), other = start(&in, in.store);
  open_session(&one, session);
  const char *answer =
      post(&one, session,
           "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"steps\","
           "\"arguments\":{},\"_meta\":{\"progressToken\":\"p\"}}}");
  expect_in(answer, "notifications/progress");
  expect_in(answer, "done");
  const char *first = strstr(answer, "id: ");
  assert_non_null(first);
  assert_int_equal(sscanf(first, "id: %63[!-~]", id), 1);
  snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\nLast-Event-ID: %s\r\n", session, id);
  int fd = send_request(&other, "GET /mcp", headers, "");
  expect_in(child_line_with(fd, "\"id\":5"), "done");
  close(fd);
  stop(&one, SIGTERM);
  stop(&other, SIGTERM);
  end_world(&in);
}

/* ---------------------------------------------------------------- Redis away */

static void while_redis_is_away_who_needs_it_is_refused(void **state) {
  static const char *const durable[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
  world in;
  char session[80];
  (void)state;
  make_world(&in, durable);
  node self = start(&in, in.store);
  open_session(&self, session);
  redis_server_kill(&in.redis, SIGKILL);
  expect_in(child_line_with(self.server.err, "the store is lost"), "redis+unix:");
  const char *refused = list_tools(&self, session);
  expect_in(refused, " 503 ");
  expect_in(refused, "Retry-After:");
  expect_in(refused, "\"id\":7");
  expect_in(post(&self, NULL,
                 "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                 "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                 "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"t\",\"version\":\"1\"},"
                 "\"io.modelcontextprotocol/clientCapabilities\":{}}}}"),
            "\"id\":8");
  assert_true(redis_server_again(&in.redis));
  expect_in(child_line_with(self.server.err, "the store is connected"), "redis+unix:");
  expect_served(&self, session);
  stop(&self, SIGTERM);
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
  expect_refused(&in, "redis://127.0.0.1/x", "a database is a number");
  snprintf(text, sizeof text, "127.0.0.1:%u", redis_server_free_port());
  char url[300];
  snprintf(url, sizeof url, "redis://%s", text);
  expect_refused(&in, url, "Connection refused");
  redis_server_ask(&in.redis, "CONFIG SET requirepass sesame-open");
  expect_refused(&in, in.store, "NOAUTH");
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
  expect_in(post(&self, session,
                 "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":"
                 "\"show\",\"arguments\":{\"file\":\"word.txt\"}}}"),
            "Permission denied");
  stop(&self, SIGTERM);
  end_world(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_session_is_every_nodes),
      cmocka_unit_test(a_session_that_was_ended_is_over_everywhere),
      cmocka_unit_test(a_stream_is_taken_up_at_another_node),
      cmocka_unit_test(while_redis_is_away_who_needs_it_is_refused),
      cmocka_unit_test(a_store_that_cannot_be_is_refused_with_the_reason),
      cmocka_unit_test(no_program_reads_the_password),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
