/* guard_stay.c - streams and WebSockets end with the token they were opened with: when it expires, when its key is taken back, when the
 * server that was asked about it says that it is no longer active. What they end with is their protocol's (src/http/stay.c);
 * who comes back shows another token. See docs/internals/auth.md. */
#include "uv/guard.h"

#include <string.h>

#define LOOK_S 60u      /* whether a key was taken back */
#define FAILURES_MAX 3u /* nobody could say whether it is good, so often in a row: it is over */

static bool key_is_gone(const idem__grant *grant) {
  const idem__key *key = grant->voucher;
  return key && atomic_load_explicit(&key->retired, memory_order_relaxed);
}

static bool is_asked_about(const idem__guard *guard, const idem__grant *grant, uint64_t now_s) {
  return grant->token && now_s >= grant->asked_s + guard->introspection_s;
}

/* The second in which it must be looked at next. */
static uint64_t next_look(const idem__guard *guard, const idem__grant *grant, uint64_t now_s) {
  uint64_t next = grant->token ? grant->asked_s + guard->introspection_s : now_s + LOOK_S;
  return grant->ends_s < next ? grant->ends_s : next;
}

void idem__guard_stays(idem__http_stay *stay, bool begins, void *user) {
  idem__guard *guard = user;
  if (begins) {
    stay->due_s = next_look(guard, stay->grant, idem__guard_now_s());
    idem_list_append(&guard->stays, &stay->link);
    if (stay->due_s < guard->stays_due_s) idem__guard_arm(guard);
  } else {
    idem__guard_ask_no_more(stay);
    idem_list_remove(&stay->link);
  }
}

uint64_t idem__stays_due(idem__guard *guard) {
  uint64_t now_s = idem__guard_now_s(), first = UINT64_MAX;
  for (const idem_list *at = guard->stays.next; at != &guard->stays; at = at->next) {
    const idem__http_stay *stay = IDEM_CONTAINER(at, idem__http_stay, link);
    if (!stay->waiter && stay->due_s < first) first = stay->due_s;
  }
  guard->stays_due_s = first;
  if (first == UINT64_MAX) return first;
  return first <= now_s ? 0 : (first - now_s < LOOK_S ? first - now_s : LOOK_S) * 1000;
}

/* ------------------------------------------------------------- asking again */

/* Nobody can say: it stays for a while. */
static void count_failure(const idem__guard *guard, idem__http_stay *stay) {
  stay->due_s = idem__guard_now_s() + guard->introspection_s;
  stay->over = ++stay->failures >= FAILURES_MAX;
  if (stay->over) stay->due_s = 0;
}

/* It ends when the timer runs: whoever tells is on the stack. */
void idem__stay_told(idem__guard *guard, idem__http_stay *stay, const char *token,
                     const idem__http_judgment *verdict) {
  bool same = stay->grant->token && strcmp(stay->grant->token, token) == 0;
  if (same && verdict->status == 0) {
    idem__grant_ref(verdict->grant);
    idem__grant_unref(stay->grant);
    stay->grant = verdict->grant;
    stay->failures = 0;
  }
  stay->due_s = next_look(guard, stay->grant, idem__guard_now_s());
  if (same && verdict->status >= 500) count_failure(guard, stay);
  if (same && verdict->status && verdict->status < 500) stay->over = true;
  if (stay->over) stay->due_s = 0;
  idem__guard_arm(guard);
}

/* Somebody else's request may have had it asked about already. */
static void ask_again(idem__guard *guard, idem__http_stay *stay, uint64_t now_s) {
  const char *token = stay->grant->token;
  idem__token_digest digest = idem__remembered_digest(&guard->remembered, token, strlen(token));
  idem__grant *grant = idem__remembered_find(&guard->remembered, digest, now_s);
  if (grant && grant->token && !is_asked_about(guard, grant, now_s)) {
    idem__grant_ref(grant);
    idem__grant_unref(stay->grant);
    stay->grant = grant;
    stay->failures = 0;
    stay->due_s = next_look(guard, grant, now_s);
  } else if (!idem__guard_ask_again(guard, stay)) {
    count_failure(guard, stay);
  }
}

/* ------------------------------------------------------------------- looking */

static void look(idem__guard *guard, idem__http_stay *stay, uint64_t now_s) {
  const idem__grant *grant = stay->grant;
  if (stay->over || now_s >= grant->ends_s || key_is_gone(grant))
    idem__http_stay_over(stay, idem__clock_ms());
  else if (is_asked_about(guard, grant, now_s))
    ask_again(guard, stay, now_s);
  else
    stay->due_s = next_look(guard, grant, now_s);
}

/* What ends tells handlers, which may end others: each waits for its turn in a list of its own. */
void idem__stays_look(idem__guard *guard) {
  uint64_t now_s = idem__guard_now_s();
  idem_list rest;
  if (idem_list_empty(&guard->stays)) return;
  idem_list_init(&rest);
  idem__guard_refresh(guard, now_s);
  while (!idem_list_empty(&guard->stays)) {
    idem__http_stay *stay = IDEM_CONTAINER(guard->stays.next, idem__http_stay, link);
    idem_list_remove(&stay->link);
    idem_list_append(&rest, &stay->link);
    if (!stay->waiter && (stay->due_s <= now_s || key_is_gone(stay->grant)))
      look(guard, stay, now_s);
  }
  while (!idem_list_empty(&rest)) {
    idem_list *link = rest.next;
    idem_list_remove(link);
    idem_list_append(&guard->stays, link);
  }
}
