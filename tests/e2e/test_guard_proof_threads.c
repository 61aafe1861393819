/* test_guard_proof_threads.c - a listener of several loops, and two listeners of one resource: a proof is good at one of them once; and the
 * end comes while some are looked at. */
#include "dpop.h"
#include "guard_world.h"

#include <signal.h>
#include <stdlib.h>

#define CALLS 60

static const char *bound_token(const world *in, const jwt_key *key, int number) {
  char thumbprint[64], claims[256];
  dpop_put_thumbprint(thumbprint, sizeof thumbprint, key);
  snprintf(claims, sizeof claims, ",\"cnf\":{\"jkt\":\"%s\"},\"jti\":\"%d\"", thumbprint, number);
  return token_of(in, &in->keys[0], claims);
}

static void send_with(world *w, const char *token, const char *proof, outcome *out) {
  static char value[TOKEN + 16];
  snprintf(value, sizeof value, "DPoP %s", token);
  w->proofs[0] = proof;
  send_call(w, value, out);
  w->proofs[0] = NULL;
}

/* Each proof so often, on as many connections as the fetcher likes: whichever loop they come to, one is let in. */
static void loops_know_which_proofs_were_shown(void **state) {
  (void)state;
  static outcome all[CALLS];
  world w;
  char token[TOKEN], proof[TOKEN];
  jwt_key key = jwt_key_new("mine", "ES256");
  open_several(&w);
  snprintf(token, sizeof token, "%s", bound_token(&w, &key, 1));
  for (int i = 0; i < CALLS; i++) {
    if (i % 6 == 0) dpop_make(proof, sizeof proof, &key, w.url, token, NULL);
    send_with(&w, token, proof, &all[i]);
  }
  for (int i = 0, fine = 0; i < CALLS; i++) {
    wait_for(&w, &all[i]);
    fine = (i % 6 ? fine : 0) + (all[i].status == 200);
    if (all[i].status != 200 && !strstr(all[i].body, "shown before"))
      fail_msg("%d: %d %s", i, all[i].status, all[i].body);
    if (i % 6 == 5) assert_int_equal(fine, 1);
  }
  jwt_key_free(&key);
  close_world(&w);
}

/* Behind one proxy, say: what one has seen the other knows. */
static void listeners_of_one_resource_know_each_others_proofs(void **state) {
  (void)state;
  static const char ours[] = "https://mcp.example/mcp";
  world w;
  outcome out;
  char token[TOKEN], proof[TOKEN], claims[512], thumbprint[64], first[96];
  jwt_key key = jwt_key_new("mine", "ES256");
  bool stopped = false;
  open_issuer(&w);
  add_key(&w, "k1", "ES256");
  idem_http_issuer issuer = {.issuer = w.issuer_url};
  idem_http_auth auth = {.issuers = &issuer, .issuer_count = 1, .resource = ours};
  open_server(&w, &auth, (idem_http_opts){.workers = 2});
  idem_listener *other = open_another(&w, &auth);
  dpop_put_thumbprint(thumbprint, sizeof thumbprint, &key);
  snprintf(claims, sizeof claims,
           "{\"iss\":\"%s\",\"aud\":\"%s\",\"sub\":\"a\",\"exp\":%lld,\"cnf\":{\"jkt\":\"%s\"}}",
           w.issuer_url, ours, (long long)time(NULL) + 600, thumbprint);
  jwt_make(token, sizeof token, &w.keys[0], claims);
  dpop_make(proof, sizeof proof, &key, ours, token, NULL);
  send_with(&w, token, proof, &out);
  wait_for(&w, &out);
  assert_int_equal(out.status, 200);
  snprintf(first, sizeof first, "%s", w.url);
  snprintf(w.url, sizeof w.url, "%s", idem_listener_url(other));
  send_with(&w, token, proof, &out);
  wait_for(&w, &out);
  assert_int_equal(out.status, 401);
  assert_non_null(strstr(out.body, "shown before"));
  dpop_make(proof, sizeof proof, &key, ours, token, NULL);
  send_with(&w, token, proof, &out);
  wait_for(&w, &out);
  assert_int_equal(out.status, 200);
  snprintf(w.url, sizeof w.url, "%s", first);
  send_with(&w, token, proof, &out);
  wait_for(&w, &out);
  assert_int_equal(out.status, 401);
  stop_another(other, &stopped);
  while (!stopped) uv_run(&w.loop, UV_RUN_ONCE);
  jwt_key_free(&key);
  close_world(&w);
}

static void a_server_may_end_while_proofs_are_looked_at(void **state) {
  (void)state;
  static outcome all[CALLS];
  jwt_key key = jwt_key_new("mine", "ES256");
  for (int turns = 0; turns < 12; turns += 3) {
    world w;
    char token[TOKEN], proof[TOKEN];
    open_several(&w);
    for (int i = 0; i < CALLS; i++) {
      snprintf(token, sizeof token, "%s", bound_token(&w, &key, i % 7));
      dpop_make(proof, sizeof proof, &key, w.url, token, NULL);
      send_with(&w, token, proof, &all[i]);
    }
    for (int i = 0; i < turns; i++) uv_run(&w.loop, UV_RUN_NOWAIT);
    close_world(&w);
  }
  jwt_key_free(&key);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loops_know_which_proofs_were_shown),
      cmocka_unit_test(listeners_of_one_resource_know_each_others_proofs),
      cmocka_unit_test(a_server_may_end_while_proofs_are_looked_at),
  };
  signal(SIGPIPE, SIG_IGN); /* libcurl writes where nobody reads any more */
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  uv_library_shutdown(); /* its threads give back what OpenSSL has kept for them */
  return failed;
}
