/* test_guard_threads.c - a listener of several loops, each with a guard of its own: tokens are verified on all of them at once, keys are
 * fetched once for all, and the end comes while something is under way. */
#include "guard_world.h"

#include <signal.h>
#include <stdlib.h>

#define CALLS 120

static void send_all(world *w, outcome *all, const jwt_key *forged) {
  for (int i = 0; i < CALLS; i++) {
    char more[32], value[TOKEN + 16];
    snprintf(more, sizeof more, ",\"jti\":\"%d\"", i % 10);
    snprintf(value, sizeof value, "Bearer %s", token_of(w, i % 4 ? &w->keys[0] : forged, more));
    send_call(w, value, &all[i]);
  }
}

static void every_loop_judges_for_itself(void **state) {
  (void)state;
  static outcome all[CALLS];
  world w;
  jwt_key forged = jwt_key_new("k1", "ES256");
  open_several(&w);
  send_all(&w, all, &forged);
  for (int i = 0; i < CALLS; i++) {
    wait_for(&w, &all[i]);
    if (all[i].status != (i % 4 ? 200 : 401)) fail_msg("%d: %d %s", i, all[i].status, all[i].body);
  }
  jwt_key_free(&forged);
  close_world(&w);
}

static void expect_all(world *w, outcome *all) {
  for (int i = 0; i < CALLS; i++) {
    wait_for(w, &all[i]);
    if (all[i].status != 200) fail_msg("%d: %d %s", i, all[i].status, all[i].body);
  }
}

/* Also for those who bring a key that nobody knows yet, on every loop. */
static void keys_are_fetched_once_for_all_loops(void **state) {
  (void)state;
  static outcome all[CALLS];
  world w;
  open_several(&w);
  send_all(&w, all, &w.keys[0]);
  expect_all(&w, all);
  assert_int_equal(w.metadata, 1);
  assert_int_equal(w.jwks, 1);
  idem__guard_pause_ms = 400;
  jwt_key old = w.keys[0];
  w.keys[0] = jwt_key_new("k2", "ES256");
  send_all(&w, all, &w.keys[0]);
  expect_all(&w, all);
  if (w.jwks > 3) fail_msg("%d", w.jwks); /* who came while it was fetched waits for the next */
  jwt_key_free(&old);
  close_world(&w);
}

/* Two listeners ask the same place; the one that fetches goes before it has an answer. */
static void who_goes_while_it_fetches_leaves_that_to_another(void **state) {
  (void)state;
  world w;
  outcome out;
  open_issuer(&w);
  add_key(&w, "k1", "ES256");
  w.manner = "silent";
  idem_http_issuer issuer = {.issuer = w.issuer_url};
  idem_http_auth auth = {.issuers = &issuer, .issuer_count = 1};
  open_server(&w, &auth, (idem_http_opts){0});
  idem_listener *first = w.listener;
  w.listener = open_another(&w, &auth);
  snprintf(w.url, sizeof w.url, "%s", idem_listener_url(w.listener));
  char value[TOKEN + 16];
  snprintf(value, sizeof value, "Bearer %s", token_of(&w, &w.keys[0], ""));
  send_call(&w, value, &out);
  while (!w.held) uv_run(&w.loop, UV_RUN_ONCE);
  assert_int_equal(w.jwks, 1);
  w.manner = "";
  bool stopped = false;
  stop_another(first, &stopped);
  wait_for(&w, &out);
  assert_int_equal(out.status, 200);
  assert_int_equal(w.jwks, 2);
  while (!stopped) uv_run(&w.loop, UV_RUN_ONCE);
  close_world(&w);
}

static void a_server_may_end_while_tokens_are_looked_at(void **state) {
  (void)state;
  static outcome all[CALLS];
  jwt_key forged = jwt_key_new("k1", "ES256");
  for (int turns = 0; turns < 12; turns += 3) {
    world w;
    open_several(&w);
    send_all(&w, all, &forged);
    for (int i = 0; i < turns; i++) uv_run(&w.loop, UV_RUN_NOWAIT);
    close_world(&w);
  }
  jwt_key_free(&forged);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_loop_judges_for_itself),
      cmocka_unit_test(keys_are_fetched_once_for_all_loops),
      cmocka_unit_test(who_goes_while_it_fetches_leaves_that_to_another),
      cmocka_unit_test(a_server_may_end_while_tokens_are_looked_at),
  };
  signal(SIGPIPE, SIG_IGN); /* libcurl writes where nobody reads any more */
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  uv_library_shutdown(); /* its threads give back what OpenSSL has kept for them */
  return failed;
}
