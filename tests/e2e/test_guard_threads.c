/* test_guard_threads.c - a listener of several loops, each with a guard of its own: tokens are verified on all of them at once,
 * and the end comes while some are. */
#include "guard_world.h"

#include <signal.h>
#include <stdlib.h>

#define CALLS 120

static void open_several(world *w) {
  open_issuer(w);
  add_key(w, "k1", "ES256");
  idem_http_issuer issuer = {.issuer = w->issuer_url};
  open_server(w, &(idem_http_auth){.issuers = &issuer, .issuer_count = 1},
              (idem_http_opts){.workers = 3});
}

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
      cmocka_unit_test(a_server_may_end_while_tokens_are_looked_at),
  };
  signal(SIGPIPE, SIG_IGN); /* libcurl writes where nobody reads any more */
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  uv_library_shutdown(); /* its threads give back what OpenSSL has kept for them */
  return failed;
}
