/* test_guard_keys.c - the keys by which a server judges tokens: where they come from, that they rotate under load, and issuers
 * that have none, too many, or do not answer. */
#include "guard_world.h"

#include <stdlib.h>
#include <unistd.h>

static void keys_that_are_none_change_nothing(void **state) {
  (void)state;
  static const char *const manners[] = {"huge", "endless", "500", "redirect", "elsewhere"};
  for (size_t i = 0; i < sizeof manners / sizeof *manners; i++) {
    world w;
    outcome out;
    open_issuer(&w);
    w.manner = manners[i];
    add_key(&w, "k1", "ES256");
    trust_issuer(&w, (idem_http_opts){.waiting_ms = 600});
    call_with(&w, token_of(&w, &w.keys[0], ""), &out);
    if (out.status != 503) fail_msg("%s: %d %s", manners[i], out.status, out.body);
    close_world(&w);
  }
}

static void one_fetch_is_for_all_and_an_unknown_key_waits_for_the_next(void **state) {
  (void)state;
  world w;
  outcome out[20];
  char tokens[2][TOKEN], value[TOKEN + 16];
  open_world(&w);
  assert_int_equal(status_of(&w, token_of(&w, &w.keys[0], "")), 200);
  idem__guard_pause_ms = 300;
  uint64_t began = uv_hrtime();
  add_key(&w, "k2", "ES256");
  jwt_key forged = jwt_key_new("k3", "ES256");
  snprintf(tokens[0], TOKEN, "%s", token_of(&w, &w.keys[1], ""));
  snprintf(tokens[1], TOKEN, "%s", token_of(&w, &forged, ""));
  for (int i = 0; i < 20; i++) {
    snprintf(value, sizeof value, "Bearer %s", tokens[i % 2]);
    send_call(&w, value, &out[i]);
  }
  for (int i = 0; i < 20; i++) {
    wait_for(&w, &out[i]);
    assert_int_equal(out[i].status, i % 2 ? 401 : 200);
  }
  /* Those who came while it was under way may have waited for one more, in each pause. */
  assert_in_range(w.jwks, 2, (int)((uv_hrtime() - began) / 300000000u) + 3);
  jwt_key_free(&forged);
  close_world(&w);
}

/* ------------------------------------------------- rotations under load */

#define GOOD 8
#define FORGED 60
#define CALLS 240
#define ROTATIONS 4

typedef struct load {
  world w;
  outcome good[GOOD], forged[FORGED];
  int sent, fine, refused_forgeries;
  unsigned forged_ids;
  jwt_key forger;
} load;

static void send_good(load *self, outcome *out) {
  char more[64], value[TOKEN + 16];
  snprintf(more, sizeof more, ",\"jti\":\"%d\"", self->sent++);
  snprintf(value, sizeof value, "Bearer %s",
           token_of(&self->w, &self->w.keys[self->w.key_count - 1], more));
  self->w.client = "192.0.2.1";
  send_call(&self->w, value, out);
}

static void send_forged(load *self, outcome *out) {
  char id[32], value[TOKEN + 16];
  snprintf(id, sizeof id, "forged-%u", self->forged_ids++);
  self->forger.id = id;
  snprintf(value, sizeof value, "Bearer %s", token_of(&self->w, &self->forger, ""));
  self->w.client = "192.0.2.66";
  send_call(&self->w, value, out);
}

/* A new key is published and used at once; the one before it stays for what is under way. */
static void rotate(world *w) {
  static const char *const ids[] = {"r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"};
  static unsigned next;
  if (w->key_count == 2) {
    jwt_key_free(&w->keys[0]);
    w->keys[0] = w->keys[1];
    w->key_count = 1;
  }
  add_key(w, ids[next++ % 8], "ES256");
}

static void look(load *self) {
  for (int i = 0; i < GOOD; i++) {
    outcome *out = &self->good[i];
    if (out->status == -1) continue;
    if (out->status != 200) fail_msg("a good request: %d %s", out->status, out->body);
    if (++self->fine % (CALLS / ROTATIONS) == 0) rotate(&self->w);
    if (self->sent < CALLS)
      send_good(self, out);
    else
      out->status = -1;
  }
  for (int i = 0; i < FORGED; i++) {
    outcome *out = &self->forged[i];
    if (out->status == -1) continue;
    assert_true(out->status == 401 || out->status == 503);
    self->refused_forgeries++;
    if (self->fine < CALLS)
      send_forged(self, out);
    else
      out->status = -1;
  }
}

static void keys_rotate_while_a_forger_makes_up_names_and_no_good_request_is_refused(void **state) {
  (void)state;
  static const char *const proxies[] = {"127.0.0.1", NULL};
  static load self;
  self = (load){.sent = 0};
  open_issuer(&self.w);
  add_key(&self.w, "r0", "ES256");
  self.forger = jwt_key_new("forged", "ES256");
  trust_issuer(&self.w, (idem_http_opts){.trusted_proxies = proxies});
  idem__guard_pause_ms = 100;
  uint64_t began = uv_hrtime();
  for (int i = 0; i < GOOD; i++) send_good(&self, &self.good[i]);
  for (int i = 0; i < FORGED; i++) send_forged(&self, &self.forged[i]);
  while (self.fine < CALLS) {
    uv_run(&self.w.loop, UV_RUN_ONCE);
    look(&self);
  }
  /* However many names were made up, keys were asked for once in each pause. */
  assert_in_range(self.w.jwks, ROTATIONS, (int)((uv_hrtime() - began) / 100000000u) + 3);
  assert_true(self.refused_forgeries > 0);
  jwt_key_free(&self.forger);
  close_world(&self.w);
}

static void a_key_that_was_taken_back_opens_nothing_any_more(void **state) {
  (void)state;
  world w;
  char first[TOKEN];
  open_world(&w);
  snprintf(first, sizeof first, "%s", token_of(&w, &w.keys[0], ""));
  assert_int_equal(status_of(&w, first), 200);
  assert_int_equal(status_of(&w, first), 200);
  idem__guard_pause_ms = 1;
  jwt_key_free(&w.keys[0]);
  w.keys[0] = jwt_key_new("k2", "ES256");
  assert_int_equal(status_of(&w, token_of(&w, &w.keys[0], "")), 200);
  assert_int_equal(status_of(&w, first), 401);
  close_world(&w);
}

static void who_waits_goes_with_its_connection(void **state) {
  (void)state;
  world w;
  outcome out;
  char value[TOKEN + 16];
  open_issuer(&w);
  add_key(&w, "k1", "ES256");
  w.manner = "silent";
  trust_issuer(&w, (idem_http_opts){0});
  while (!w.held) uv_run(&w.loop, UV_RUN_ONCE);
  snprintf(value, sizeof value, "Bearer %s", token_of(&w, &w.keys[0], ""));
  idem_fetch *fetch = send_call(&w, value, &out);
  for (int i = 0; i < 20; i++) uv_run(&w.loop, UV_RUN_NOWAIT);
  idem_fetch_cancel(fetch);
  send_call(&w, value, &out); /* and one that is there to the end of the server */
  for (int i = 0; i < 20; i++) uv_run(&w.loop, UV_RUN_NOWAIT);
  close_world(&w);
}

static void keys_may_come_from_a_file(void **state) {
  (void)state;
  world w;
  char path[] = "/tmp/idem.jwks.XXXXXX", text[4096] = "{\"keys\":[";
  int file = mkstemp(path);
  assert_true(file >= 0);
  open_issuer(&w);
  add_key(&w, "k1", "ES256");
  jwt_put_jwk(text, sizeof text, &w.keys[0]);
  strcat(text, "]}");
  assert_int_equal(write(file, text, strlen(text)), strlen(text));
  idem_http_issuer issuer = {.issuer = "https://far.example", .jwks_file = path};
  open_server(&w, &(idem_http_auth){.issuers = &issuer, .issuer_count = 1}, (idem_http_opts){0});
  snprintf(w.issuer_url, sizeof w.issuer_url, "https://far.example");
  assert_int_equal(status_of(&w, token_of(&w, &w.keys[0], "")), 200);
  jwt_key forged = jwt_key_new("k2", "ES256");
  idem__guard_pause_ms = 1;
  expect_bad_token(&w, "not in the file", token_of(&w, &forged, ""));
  assert_int_equal(w.metadata + w.jwks + w.strangers, 0);
  jwt_key_free(&forged);
  close(file);
  unlink(path);
  close_world(&w);
}

static void keys_that_are_too_many_are_told_of(void **state) {
  (void)state;
  world w;
  open_issuer(&w);
  open_log(&w);
  add_key(&w, "k1", "ES256");
  trust_issuer(&w, (idem_http_opts){0});
  w.manner = "many";
  assert_int_equal(status_of(&w, token_of(&w, &w.keys[0], "")), 200);
  if (!strstr(w.logged, "an issuer has too many keys")) fail_msg("%s", w.logged);
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_that_are_none_change_nothing),
      cmocka_unit_test(one_fetch_is_for_all_and_an_unknown_key_waits_for_the_next),
      cmocka_unit_test(keys_rotate_while_a_forger_makes_up_names_and_no_good_request_is_refused),
      cmocka_unit_test(a_key_that_was_taken_back_opens_nothing_any_more),
      cmocka_unit_test(who_waits_goes_with_its_connection),
      cmocka_unit_test(keys_may_come_from_a_file),
      cmocka_unit_test(keys_that_are_too_many_are_told_of),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  uv_library_shutdown(); /* its threads give back what OpenSSL has kept for them */
  return failed;
}
