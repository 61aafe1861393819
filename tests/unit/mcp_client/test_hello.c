/* test_hello.c - a client finds the era of its server by asking: whatever the answer to the first word is, the
 * second one is right, and what says nothing about eras is not taken for a sign of one. */
#include "support/mcp_asker.h"
#include "support/unit.h"

#include <idem/mcp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mcp_asker *opened(const idem_mcp_client_opts *opts) {
  mcp_asker *self = calloc(1, sizeof *self);
  assert_non_null(self);
  fault_alloc_init(&self->fault);
  assert_true(mcp_asker_open(self, opts));
  return self;
}

static void closed(mcp_asker *self) {
  mcp_asker_close(self);
  fault_alloc_assert_clean(&self->fault);
  free(self);
}

#define HAS(text, part) assert_non_null(strstr((text), (part)))
#define LACKS(text, part) assert_null(strstr((text), (part)))
#define ERROR1(code)                                                                               \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":" code ",\"message\":\"no\"}}"
#define REFUSED(versions)                                                                          \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32022,\"message\":\"no\",\"data\":{"         \
  "\"supported\":[" versions "],\"requested\":\"2026-07-28\"}}}"

static void the_newer_era_is_asked_for_first_and_needs_one_round(void **state) {
  (void)state;
  mcp_asker *self = opened(NULL);
  const char *sent = mcp_asker_sent(self);
  HAS(sent, "\"method\":\"server/discover\"");
  HAS(sent, "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"");
  assert_false(self->ready);
  mcp_asker_be_modern(self);
  assert_true(self->ready);
  assert_int_equal(self->status, IDEM_OK);
  assert_int_equal(idem_mcp_client_revision(self->client), IDEM_MCP_2026_07_28);
  assert_true(idem_mcp_client_declares(self->client, (const char *const[]){"tools", NULL}));
  assert_false(idem_mcp_client_declares(self->client, (const char *const[]){"prompts", NULL}));
  closed(self);
}

static void any_error_means_an_older_server(void **state) {
  (void)state;
  const char *const answers[] = {
      ERROR1("-32601"),
      ERROR1("-32602"),
      ERROR1("-32600"),
      ERROR1("-32000"),
      ERROR1("0"),
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}",
      "{\"jsonrpc\":\"2.0\",\"id\":1}",
      "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"\"}}",
      REFUSED("\"2025-11-25\",\"2024-11-05\"")};
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    mcp_asker *self = opened(NULL);
    mcp_asker_sent(self);
    mcp_asker_hear(self, answers[i]);
    if (strstr(answers[i], "\"id\":1}")) mcp_asker_wait(self, 6000);
    const char *sent = mcp_asker_sent(self);
    HAS(sent, "\"method\":\"initialize\"");
    HAS(sent, "\"protocolVersion\":\"2025-11-25\"");
    LACKS(sent, "_meta");
    LACKS(sent, "cancelled");
    closed(self);
  }
}

static void silence_means_an_older_server(void **state) {
  (void)state;
  mcp_asker *self = opened(NULL);
  mcp_asker_sent(self);
  mcp_asker_wait(self, 4999);
  assert_string_equal(mcp_asker_sent(self), "");
  mcp_asker_wait(self, 1);
  HAS(mcp_asker_sent(self), "\"method\":\"initialize\"");
  closed(self);
}

static void a_modern_server_that_is_slow_to_start_is_understood(void **state) {
  (void)state;
  mcp_asker *self = opened(NULL);
  mcp_asker_wait(self, 5000);
  HAS(mcp_asker_sent(self), "\"method\":\"initialize\"");
  mcp_asker_hear(self, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"supportedVersions\":[\"2026-07-"
                       "28\"]}}"); /* too late */
  mcp_asker_hear(self,
                 "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32601,\"message\":\"gone\"}}");
  HAS(mcp_asker_sent(self), "\"id\":3,\"method\":\"server/discover\"");
  mcp_asker_hear(
      self, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"supportedVersions\":[\"2026-07-28\"]}}");
  assert_int_equal(idem_mcp_client_revision(self->client), IDEM_MCP_2026_07_28);
  closed(self);
  self = opened(NULL); /* and one that refuses everything is asked no more than four times */
  mcp_asker_wait(self, 5000);
  for (int id = 2; id < 9; id++) {
    char line[128];
    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":%d,\"error\":{\"code\":-32601,\"message\":\"no\"}}", id);
    mcp_asker_hear(self, line);
  }
  assert_int_equal(self->status, IDEM_E_REMOTE);
  LACKS(mcp_asker_sent(self), "\"id\":5");
  closed(self);
}

static void a_version_both_speak_is_tried_once_more(void **state) {
  (void)state;
  mcp_asker *self = opened(NULL);
  mcp_asker_sent(self);
  mcp_asker_hear(self, REFUSED("\"2026-07-28\""));
  HAS(mcp_asker_sent(self), "server/discover");
  mcp_asker_hear(
      self, "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32022,\"message\":\"still no\","
            "\"data\":{\"supported\":[\"2026-07-28\"]}}}");
  assert_string_equal(mcp_asker_sent(self), "");
  assert_int_equal(self->status, IDEM_E_REMOTE);
  idem_mcp_trouble trouble = idem_mcp_client_trouble(self->client);
  assert_string_equal(trouble.text, "still no");
  assert_int_equal(trouble.phase, IDEM_MCP_PHASE_DISCOVER);
  closed(self);
}

static void no_version_in_common_is_said_plainly(void **state) {
  (void)state;
  mcp_asker *self = opened(NULL);
  mcp_asker_sent(self);
  mcp_asker_hear(self, REFUSED("\"2030-01-01\""));
  assert_int_equal(self->status, IDEM_E_REMOTE);
  closed(self);
  self = opened(NULL);
  mcp_asker_hear(
      self, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"supportedVersions\":[\"2030-01-01\"]}}");
  assert_int_equal(self->status, IDEM_E_PROTO);
  HAS(idem_mcp_client_trouble(self->client).text, "no version in common");
  closed(self);
}

static void every_older_revision_is_taken_as_the_server_says(void **state) {
  (void)state;
  const char *const dates[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};
  for (size_t i = 0; i < 4; i++) {
    mcp_asker *self = opened(NULL);
    mcp_asker_be_legacy(self, dates[i]);
    assert_int_equal(self->status, IDEM_OK);
    assert_true(self->ready);
    assert_string_equal(idem_mcp_revision_date(idem_mcp_client_revision(self->client)), dates[i]);
    assert_string_equal(
        yyjson_get_str(yyjson_obj_get(idem_mcp_client_server_info(self->client), "name")), "old");
    closed(self);
  }
}

static void a_revision_nobody_knows_ends_the_handshake(void **state) {
  (void)state;
  mcp_asker *self = opened(NULL);
  mcp_asker_be_legacy(self, "1999-01-01");
  assert_int_equal(self->status, IDEM_E_PROTO);
  closed(self);
}

static void what_is_known_is_not_asked(void **state) {
  (void)state;
  idem_mcp_client_opts opts = {.known = IDEM_MCP_2025_06_18};
  mcp_asker *self = opened(&opts);
  const char *sent = mcp_asker_sent(self);
  HAS(sent, "\"method\":\"initialize\"");
  HAS(sent, "\"protocolVersion\":\"2025-06-18\"");
  mcp_asker_hear(self, ERROR1("-32601")); /* it has changed since */
  HAS(mcp_asker_sent(self), "server/discover");
  closed(self);
}

static void the_handshake_has_a_time_limit_and_is_never_cancelled(void **state) {
  (void)state;
  mcp_asker *self = opened(NULL);
  mcp_asker_hear(self, ERROR1("-32601"));
  mcp_asker_sent(self);
  mcp_asker_wait(self, 30000);
  assert_string_equal(mcp_asker_sent(self), "");
  assert_int_equal(self->status, IDEM_E_TIMEOUT);
  assert_int_equal(idem_mcp_client_trouble(self->client).phase, IDEM_MCP_PHASE_HANDSHAKE);
  closed(self);
}

static void calls_before_the_handshake_are_refused(void **state) {
  (void)state;
  mcp_asker *self = opened(NULL);
  assert_int_equal(idem_mcp_client_ping(self->client, NULL, NULL, NULL, NULL), IDEM_E_STATE);
  assert_int_equal(idem_mcp_list(self->client, IDEM_MCP_TOOLS, NULL, NULL, NULL, NULL),
                   IDEM_E_STATE);
  closed(self);
}

static void options_that_cannot_be_are_refused(void **state) {
  (void)state;
  idem_mcp_client *client;
  const idem_mcp_client_opts bad[] = {
      {.name = "x"},
      {.revisions = 1024},
      {.known = IDEM_MCP_2024_11_05, .revisions = IDEM_MCP_2026_07_28},
      {.extensions = "[]"},
      {.experimental = "{"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(idem_mcp_client_new(&bad[i], &client), IDEM_E_INVAL);
}

static void greet(fault_alloc *fault, void *user) {
  mcp_asker *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->fault = *fault; /* the allocator's functions find the fault by their context */
  self->fault.alloc.ctx = fault;
  (void)user;
  if (mcp_asker_open(self, NULL)) {
    mcp_asker_be_legacy(self, "2025-11-25");
    mcp_asker_sent(self);
  }
  mcp_asker_close(self);
  free(self);
}

/* A client's conn is nobody's session: what servers ask of theirs is not asked there. */
static void what_is_a_servers_to_ask_is_refused_on_a_clients_conn(void **state) {
  (void)state;
  for (unsigned modern = 0; modern < 2; modern++) {
    mcp_asker *self = opened(NULL);
    if (modern)
      mcp_asker_be_modern(self);
    else
      mcp_asker_be_legacy(self, "2025-11-25");
    mcp_asker_sent(self);
    idem_conn *conn = idem_mcp_client_conn(self->client);
    assert_non_null(conn);
    assert_int_equal(idem_mcp_ping(conn, 0, NULL, NULL), IDEM_E_STATE);
    assert_string_equal(mcp_asker_sent(self), "");
    closed(self);
  }
}

static void no_memory_at_any_step_leaves_nothing_behind(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(greet, NULL, 2000) > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_newer_era_is_asked_for_first_and_needs_one_round),
      cmocka_unit_test(any_error_means_an_older_server),
      cmocka_unit_test(silence_means_an_older_server),
      cmocka_unit_test(a_modern_server_that_is_slow_to_start_is_understood),
      cmocka_unit_test(a_version_both_speak_is_tried_once_more),
      cmocka_unit_test(no_version_in_common_is_said_plainly),
      cmocka_unit_test(every_older_revision_is_taken_as_the_server_says),
      cmocka_unit_test(a_revision_nobody_knows_ends_the_handshake),
      cmocka_unit_test(what_is_known_is_not_asked),
      cmocka_unit_test(the_handshake_has_a_time_limit_and_is_never_cancelled),
      cmocka_unit_test(calls_before_the_handshake_are_refused),
      cmocka_unit_test(options_that_cannot_be_are_refused),
      cmocka_unit_test(what_is_a_servers_to_ask_is_refused_on_a_clients_conn),
      cmocka_unit_test(no_memory_at_any_step_leaves_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
