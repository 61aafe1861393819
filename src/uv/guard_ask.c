/* guard_ask.c - opaque tokens: an endpoint of the authorization server is asked about them (RFC 7662), as whom the operator says.
 * So many at once, the others in turn; what it says holds for a while. */
#include "auth/auth.h"
#include "uv/guard.h"

#include <string.h>

#define ASKED_MAX 32u
#define ANSWER_BYTES 65536u
#define ANSWER_MS 10000u

static void end_one(idem__guard *guard) {
  guard->servers_asked--;
  idem__guard_next_turn(guard);
}

static void take_answer(idem__asking *asking, const idem_fetch_answer *answer) {
  idem__guard *guard = asking->guard;
  idem__grant *grant = NULL;
  const char *why = "";
  uint64_t now_s = idem__guard_now_s();
  idem_status status = idem__introspected(&guard->rules, &guard->alloc, answer->body,
                                          answer->body_len, now_s, &grant, &why);
  if (status == IDEM_OK) status = idem__grant_keep_token(grant, asking->text, asking->len, now_s);
  if (status == IDEM_OK) {
    idem__remembered_add(&guard->remembered, asking->digest, grant, NULL,
                         now_s + guard->introspection_s);
    idem__asking_accept(asking, grant);
  } else {
    idem__asking_refuse(asking, status == IDEM_E_INVAL ? 401 : 503,
                        status == IDEM_E_INVAL ? why : "the token cannot be looked at now");
  }
  idem__grant_unref(grant);
}

static void on_answer(const idem_fetch_answer *answer, void *user) {
  idem__asking *asking = user;
  idem__guard *guard = asking->guard;
  bool came = answer->status == IDEM_OK && answer->http_status == 200;
  asking->fetch = NULL;
  if (!came)
    idem_logf(guard->log, IDEM_LOG_WARN, "nobody could say of a token whether it is good", "%s: %s",
              guard->introspection_url,
              answer->status == IDEM_OK ? "not answered with 200" : answer->why);
  if (came)
    take_answer(asking, answer);
  else
    idem__asking_refuse(asking, 503, "nobody can say now whether the token is good");
  end_one(guard);
}

static void wipe(idem_buf *secret) {
  volatile char *at = secret->data;
  for (size_t i = 0; i < secret->cap; i++) at[i] = 0;
  idem_buf_deinit(secret);
}

static idem_status start(idem__asking *asking, const char *form, size_t len) {
  idem__guard *guard = asking->guard;
  const char *const headers[] = {"Accept: application/json",
                                 "Content-Type: application/x-www-form-urlencoded",
                                 guard->introspection_authorization, NULL};
  idem_fetch_opts opts = {.method = "POST",
                          .url = guard->introspection_url,
                          .headers = headers,
                          .body = form,
                          .body_len = len,
                          .may_repeat = true,
                          .max_bytes = ANSWER_BYTES,
                          .total_ms = ANSWER_MS,
                          .redirects = IDEM_REDIRECTS_NONE,
                          .ca_file = guard->ca_file,
                          .proxy = guard->proxy,
                          .log = guard->log,
                          .alloc = &guard->alloc};
  return idem_fetch_start(guard->runtime->loop, &opts, on_answer, asking, &asking->fetch);
}

static void begin(idem__asking *asking) {
  idem_buf form;
  idem_buf_init(&form, &asking->guard->alloc, 3 * IDEM__TOKEN_BYTES + 256);
  idem_status status = idem__auth_form_add(&form, "token", asking->text);
  if (status == IDEM_OK) status = idem__auth_form_add(&form, "token_type_hint", "access_token");
  if (status == IDEM_OK) status = start(asking, form.data, form.len);
  wipe(&form);
  if (status == IDEM_OK) {
    asking->step = IDEM__ASKING_SERVER;
    asking->guard->servers_asked++;
  } else {
    idem__asking_fail(asking);
  }
}

void idem__asking_introspect(idem__asking *asking) {
  asking->step = IDEM__ASKING_TURN;
  if (asking->guard->servers_asked < ASKED_MAX) begin(asking);
}

void idem__guard_next_turn(idem__guard *guard) {
  for (idem_list *at = guard->askings.next; at != &guard->askings; at = at->next) {
    idem__asking *asking = IDEM_CONTAINER(at, idem__asking, link);
    if (guard->servers_asked >= ASKED_MAX) return;
    if (asking->step == IDEM__ASKING_TURN) begin(asking);
  }
}
