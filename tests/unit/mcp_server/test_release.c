/* test_release.c - whoever adds a tool, resource or prompt learns when what it pointed to may go: once, and
 * not while a call that began before still has it. */
#include "support/fault_alloc.h"
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <stdlib.h>

typedef struct owned {
  unsigned released;
  idem_request *kept;
} owned;

static void release(void *user) { ((owned *)user)->released++; }

static void keep(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  ((owned *)user)->kept = request;
  idem_request_keep(request);
}
static void read(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  idem_resource_text(request, NULL, "x", 1);
}
static void prompt(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_prompt_text(request, "x", 1);
}

static idem_status add_tool(idem_server *server, owned *user) {
  idem_tool tool = {.name = "t", .fn = keep, .user = user, .release = release};
  return idem_server_add_tool(server, &tool, NULL, 0);
}
static idem_status add_resource(idem_server *server, owned *user) {
  idem_resource resource = {
      .uri = "file:///r", .name = "r", .fn = read, .user = user, .release = release};
  return idem_server_add_resource(server, &resource, NULL, 0);
}
static idem_status add_prompt(idem_server *server, owned *user) {
  idem_prompt made = {.name = "p", .fn = prompt, .user = user, .release = release};
  return idem_server_add_prompt(server, &made, NULL, 0);
}

static void a_call_keeps_what_its_tool_points_to(void **state) {
  (void)state;
  owned user = {0};
  mcp_peer peer;
  idem_server *server = mcp_test_server(NULL);
  assert_int_equal(add_tool(server, &user), IDEM_OK);
  mcp_peer_open(&peer, server, "2025-11-25");
  mcp_peer_ask(&peer, "tools/call", "\"name\":\"t\"");
  assert_non_null(user.kept);
  assert_int_equal(idem_server_remove_tool(server, "t"), IDEM_OK);
  assert_int_equal(user.released, 0);
  idem_tool_text(user.kept, "done", 4);
  assert_int_equal(user.released, 1);
  mcp_peer_close(&peer);
  idem_server_free(server);
  assert_int_equal(user.released, 1);
}

static void what_is_removed_is_released_at_once_where_nobody_uses_it(void **state) {
  (void)state;
  owned users[3] = {{0}};
  idem_server *server = mcp_test_server(NULL);
  assert_int_equal(add_tool(server, &users[0]), IDEM_OK);
  assert_int_equal(add_resource(server, &users[1]), IDEM_OK);
  assert_int_equal(add_prompt(server, &users[2]), IDEM_OK);
  assert_int_equal(idem_server_remove_tool(server, "t"), IDEM_OK);
  assert_int_equal(idem_server_remove_resource(server, "file:///r"), IDEM_OK);
  assert_int_equal(idem_server_remove_prompt(server, "p"), IDEM_OK);
  for (size_t i = 0; i < 3; i++) assert_int_equal(users[i].released, 1);
  idem_server_free(server);
}

static void what_stays_is_released_with_the_server_that_has_it(void **state) {
  (void)state;
  owned first = {0}, second = {0};
  idem_server *server = mcp_test_server(NULL), *from = mcp_test_server(NULL);
  assert_int_equal(add_tool(server, &first), IDEM_OK);
  assert_int_equal(add_tool(from, &second), IDEM_OK);
  idem_server_replace(server, from);
  idem_server_free(from);
  assert_int_equal(first.released, 1);
  assert_int_equal(second.released, 0);
  idem_server_free(server);
  assert_int_equal(second.released, 1);
}

/* Whose adding failed still has it. */
static void add_in_need(fault_alloc *fault, void *user) {
  owned mine[3] = {{0}};
  idem_server *server;
  (void)user;
  if (mcp_test_server_try(&(idem_server_opts){.alloc = &fault->alloc}, &server) != IDEM_OK) return;
  const idem_status added[] = {add_tool(server, &mine[0]), add_resource(server, &mine[1]),
                               add_prompt(server, &mine[2])};
  owned again = {0};
  assert_int_not_equal(add_tool(server, &again), added[0]);
  idem_server_free(server);
  for (size_t i = 0; i < 3; i++) assert_int_equal(mine[i].released, added[i] == IDEM_OK);
  assert_int_equal(again.released, added[0] != IDEM_OK);
}

static void nothing_is_released_where_adding_failed(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(add_in_need, NULL, 5000) > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_keeps_what_its_tool_points_to),
      cmocka_unit_test(what_is_removed_is_released_at_once_where_nobody_uses_it),
      cmocka_unit_test(what_stays_is_released_with_the_server_that_has_it),
      cmocka_unit_test(nothing_is_released_where_adding_failed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
