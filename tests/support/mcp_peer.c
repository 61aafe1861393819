/* mcp_peer.c - an MCP client in memory. */
#include "mcp_peer.h"
#include "fault_alloc.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ server */

static void fixed_random(void *ctx, void *bytes, size_t len) {
  (void)ctx;
  memset(bytes, 7, len);
}

static uint64_t fixed_wall(void *ctx) {
  (void)ctx;
  return UINT64_C(1700000000000);
}

idem_status mcp_test_server_try(const idem_server_opts *opts, idem_server **out) {
  idem_server_opts all = opts ? *opts : (idem_server_opts){0};
  if (!all.name) all.name = "test";
  if (!all.version) all.version = "1";
  if (!all.random) all.random = fixed_random;
  if (!all.wall_ms) all.wall_ms = fixed_wall;
  return idem_server_new(&all, out);
}

idem_server *mcp_test_server(const idem_server_opts *opts) {
  idem_server *server;
  assert_int_equal(mcp_test_server_try(opts, &server), IDEM_OK);
  return server;
}

/* -------------------------------------------------------------------- peer */

const char *mcp_peer_more(mcp_peer *peer) {
  idem_chunk chunk;
  peer->answer_len = 0;
  while (idem_conn_next_chunk(peer->conn, &chunk)) {
    peer->answer = realloc(peer->answer, peer->answer_len + chunk.len + 1);
    assert_non_null(peer->answer);
    memcpy(peer->answer + peer->answer_len, chunk.data, chunk.len);
    peer->answer_len += chunk.len;
    idem_chunk_free(&chunk);
  }
  if (!peer->answer_len) return "";
  assert_int_equal(peer->answer[peer->answer_len - 1], '\n');
  peer->answer[--peer->answer_len] = '\0';
  return peer->answer;
}

static const char *send_line(mcp_peer *peer, const char *line) {
  assert_int_equal(idem_conn_feed(peer->conn, line, strlen(line)), IDEM_OK);
  return mcp_peer_more(peer);
}

static const char initialized[] =
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

static void write_hello(const mcp_peer *peer, char *line, size_t size) {
  snprintf(
      line, size,
      "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
      "\"%s\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n",
      peer->date);
}

static void shake_hands(mcp_peer *peer) {
  char line[512], agreed[64];
  write_hello(peer, line, sizeof line);
  snprintf(agreed, sizeof agreed, "\"protocolVersion\":\"%s\"", peer->date);
  assert_non_null(strstr(send_line(peer, line), agreed));
  assert_string_equal(send_line(peer, initialized), "");
}

static void on_trace(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                     void *user) {
  (void)conn;
  mcp_schema_trace(user, direction, message, len);
}

static idem_status open_conn(mcp_peer *peer, idem_server *server, const char *date,
                             const idem_alloc *alloc, const idem_policy *policy) {
  *peer = (mcp_peer){.date = date, .modern = strcmp(date, "2026-07-28") >= 0};
  idem_conn_opts opts = {.alloc = alloc, .policy = policy};
  if (!alloc) {
    peer->checker = mcp_schema_new();
    opts.on_trace = on_trace;
    opts.user = peer->checker;
  }
  return idem_server_accept(server, &opts, &peer->conn);
}

void mcp_peer_open_by(mcp_peer *peer, idem_server *server, const char *date,
                      const idem_policy *policy) {
  assert_int_equal(open_conn(peer, server, date, NULL, policy), IDEM_OK);
  if (!peer->modern) shake_hands(peer);
}

void mcp_peer_open(mcp_peer *peer, idem_server *server, const char *date) {
  mcp_peer_open_by(peer, server, date, NULL);
}

void mcp_peer_close(mcp_peer *peer) {
  idem_conn_free(peer->conn);
  free(peer->answer);
  if (peer->checker && !mcp_schema_end(peer->checker)) fail_msg("a message breaks its schema");
}

void mcp_peer_close_with(mcp_peer *peer, idem_server *server) {
  mcp_peer_close(peer);
  idem_server_free(server);
}

/* The next request as a line; to be freed. */
static char *write_request(mcp_peer *peer, const char *method, const char *members) {
  static const char meta[] =
      "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
      "\"io.modelcontextprotocol/clientCapabilities\":{}}";
  size_t room = strlen(method) + strlen(members) + sizeof meta + 128;
  char *line = malloc(room);
  assert_non_null(line);
  snprintf(line, room, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\",\"params\":{%s%s%s}}\n",
           ++peer->asked, method, members, *members && peer->modern ? "," : "",
           peer->modern ? meta : "");
  return line;
}

const char *mcp_peer_ask(mcp_peer *peer, const char *method, const char *members) {
  char *line = write_request(peer, method, members);
  const char *answer = send_line(peer, line);
  free(line);
  return answer;
}

void mcp_peer_expect(mcp_peer *peer, const char *method, const char *members, const char *wanted) {
  const char *answer = mcp_peer_ask(peer, method, members);
  char head[64];
  int len = snprintf(head, sizeof head, "{\"jsonrpc\":\"2.0\",\"id\":%u,", peer->asked);
  size_t answer_len = strlen(answer);
  if (strncmp(answer, head, (size_t)len) != 0) fail_msg("%s in %s: %s", method, peer->date, answer);
  const char *got = answer + len;
  size_t got_len = answer_len - (size_t)len - 1; /* without the last brace */
  if (got_len != strlen(wanted) || memcmp(got, wanted, got_len) != 0) {
    fail_msg("%s %s in %s:\n got %.*s\nnot %s", method, members, peer->date, (int)got_len, got,
             wanted);
  }
}

void mcp_peer_expect_part(mcp_peer *peer, const char *method, const char *members,
                          const char *part) {
  const char *answer = mcp_peer_ask(peer, method, members);
  if (!strstr(answer, part)) {
    fail_msg("%s %s in %s:\n got %s\nwithout %s", method, members, peer->date, answer, part);
  }
}

void mcp_peer_expect_bad_param(mcp_peer *peer, const char *method, const char *members,
                               const char *param, const char *expected, const char *received) {
  char wanted[512];
  snprintf(
      wanted, sizeof wanted,
      "\"error\":{\"code\":-32602,\"message\":\"Invalid params: %s: expected %s, received %s\","
      "\"data\":{\"param\":\"%s\",\"expected\":\"%s\",\"received\":\"%s\"}}",
      param, expected, received, param, expected, received);
  mcp_peer_expect(peer, method, members, wanted);
}

/* ------------------------------------------------------ where memory fails */

static void try_line(mcp_peer *peer, const char *line) {
  idem_conn_feed(peer->conn, line, strlen(line));
  mcp_peer_more(peer);
}

bool mcp_peer_try_open(mcp_peer *peer, idem_server *server, const char *date,
                       const idem_alloc *alloc) {
  char line[512];
  if (open_conn(peer, server, date, alloc, NULL) != IDEM_OK) return false;
  if (peer->modern) return true;
  write_hello(peer, line, sizeof line);
  try_line(peer, line);
  try_line(peer, initialized);
  return true;
}

void mcp_peer_try(mcp_peer *peer, const char *method, const char *members) {
  char *line = write_request(peer, method, members);
  try_line(peer, line);
  free(line);
}

typedef struct short_life {
  const mcp_test_life *life;
  const char *date;
} short_life;

static void live_briefly(fault_alloc *memory, void *user) {
  const short_life *now = user;
  const mcp_test_life *life = now->life;
  idem_server *server;
  mcp_peer peer;
  if (mcp_test_server_try(&(idem_server_opts){.alloc = &memory->alloc}, &server) != IDEM_OK) return;
  life->fill(server);
  if (mcp_peer_try_open(&peer, server, now->date, &memory->alloc)) {
    for (const struct mcp_test_question *ask = life->questions; ask->method; ask++) {
      mcp_peer_try(&peer, ask->method, ask->members);
    }
    mcp_peer_close(&peer);
  }
  life->empty(server);
  idem_server_free(server);
}

void mcp_test_sweep(const mcp_test_life *life) {
  short_life newest = {life, mcp_test_revisions[MCP_TEST_REVISIONS - 1]};
  short_life oldest = {life, mcp_test_revisions[0]};
  assert_true(fault_alloc_sweep(live_briefly, &newest, 5000) > 50);
  assert_true(fault_alloc_sweep(live_briefly, &oldest, 5000) > 50);
}
