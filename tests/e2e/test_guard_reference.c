/* test_guard_reference.c - idem-reference with the flags for tokens: what they say is what is asked for, and flags that mean nothing are refused. */
#include "child.h"
#include "guard_world.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char echo_body[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\","
    "\"arguments\":{\"text\":\"hi\"},\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
    "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}";

static int echo_with(world *in, const char *token, outcome *out) {
  static char value[TOKEN + 16];
  snprintf(value, sizeof value, "Bearer %s", token);
  send_body(in, value, "tools/call", "echo", echo_body, out);
  wait_for(in, out);
  return out->status;
}

static const char *token_for(const jwt_key *key, const char *audience, const char *scope) {
  static char token[TOKEN], claims[1024];
  snprintf(claims, sizeof claims,
           "{\"iss\":\"https://id.example\",\"aud\":\"%s\",\"email\":\"a@b.example\",\"scope\":"
           "\"%s\",\"exp\":%lld}",
           audience, scope, (long long)time(NULL) + 600);
  jwt_make(token, sizeof token, key, claims);
  return token;
}

static void write_keys(const char *path, const jwt_key *key) {
  char keys[4096] = "{\"keys\":[";
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  jwt_put_jwk(keys, sizeof keys, key);
  fprintf(file, "%s]}", keys);
  fclose(file);
}

static void its_flags_say_whose_tokens_are_taken(void **state) {
  (void)state;
  char folder[] = "/tmp/idem-guard-XXXXXX", path[64];
  world w = {.manner = ""};
  outcome out;
  jwt_key key = jwt_key_new("k1", "ES256");
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/keys.json", folder);
  write_keys(path, &key);
  child server = CHILD(REFERENCE, "--profile", "mcp", "--http", "127.0.0.1:0", "--issuer",
                       "https://id.example", "--jwks-file", path, "--resource",
                       "https://mcp.example/mcp", "--audience", "mine", "--scope", "mcp:use",
                       "--principal", "email", "--workers", "2", "--access-log");
  child_listening(&server, w.url, sizeof w.url);
  uv_loop_init(&w.loop);
  assert_int_equal(echo_with(&w, token_for(&key, "mine", "mcp:use"), &out), 200);
  assert_non_null(strstr(out.body, "\"text\":\"hi\""));
  assert_int_equal(echo_with(&w, token_for(&key, "mine", "else"), &out), 403);
  assert_non_null(strstr(out.challenge, "error=\"insufficient_scope\""));
  assert_int_equal(echo_with(&w, token_for(&key, "yours", "mcp:use"), &out), 401);
  assert_non_null(
      strstr(out.challenge,
             "resource_metadata=\"https://mcp.example/.well-known/oauth-protected-resource/mcp\""));
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
  uv_run(&w.loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&w.loop), 0);
  unlink(path);
  rmdir(folder);
  jwt_key_free(&key);
}

static void flags_that_mean_nothing_are_refused(void **state) {
  (void)state;
  child none = CHILD(REFERENCE, "--scope", "mcp:use");
  assert_int_equal(child_end(&none), 2);
  child keys = CHILD(REFERENCE, "--jwks-file", "keys.json", "--issuer", "https://id.example");
  assert_int_equal(child_end(&keys), 2);
  child nowhere = CHILD(REFERENCE, "--profile", "mcp", "--http", "127.0.0.1:0", "--issuer",
                        "http://id.example");
  assert_int_not_equal(child_end(&nowhere), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(its_flags_say_whose_tokens_are_taken),
      cmocka_unit_test(flags_that_mean_nothing_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
