/* guard.c - requests with tokens: one that is known goes on at once, any other waits (decision 0013) while its key is fetched, a
 * thread looks at its signature, or a server is asked about it. One token is looked at once, however many bring it.
 * Everything that waits is bounded, of one client, too. See docs/internals/auth.md. */
#include "uv/guard.h"
#include "modules/jose/jose.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define WAITING_MAX                                                                                \
  896u /* requests of a loop; some of idem_http_opts.max_waiting is left for others */
#define CLIENT_WAITING_MAX 640u
#define JOBS_MAX 1024u /* on other threads, those of requests that have gone included */
#define CHALLENGE_BYTES 7168u

typedef struct waiter {
  idem__list link; /* in its asking's */
  idem__asking *asking;
  idem_http_wait *wait;
  idem__ip client;
} waiter;

uint64_t idem__guard_now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec;
}

/* --------------------------------------------------------------- verdicts */

static void refuse(idem__guard *guard, idem__http_judgment *verdict, int status,
                   const idem__bearer_challenge *challenge) {
  *verdict = (idem__http_judgment){.status = status, .why = challenge->why};
  if (status >= 500) return;
  guard->line.len = 0;
  if (idem__protected_challenge(&guard->protected_, &guard->line, challenge) == IDEM_OK)
    verdict->challenge = guard->line.data;
}

static void refuse_token(idem__guard *guard, idem__http_judgment *verdict, int status,
                         const char *why) {
  refuse(guard, verdict, status,
         &(idem__bearer_challenge){
             .error = "invalid_token", .why = why, .scope = guard->required_scope});
}

/* All that it has and all that it needs, so that who asks for that loses nothing. */
static void refuse_scope(idem__guard *guard, idem__http_judgment *verdict,
                         const idem__grant *grant) {
  idem__buf all;
  idem__buf_init(&all, &guard->alloc, CHALLENGE_BYTES / 2);
  idem_status status = idem__scope_add(&all, grant->scope, strlen(grant->scope));
  if (status == IDEM_OK)
    status = idem__scope_add(&all, guard->required_scope, strlen(guard->required_scope));
  refuse(guard, verdict, 403,
         &(idem__bearer_challenge){.error = "insufficient_scope",
                                   .why = "the token does not reach so far",
                                   .scope = status == IDEM_OK ? all.data : guard->required_scope});
  idem__buf_deinit(&all);
}

static void let_in(idem__guard *guard, idem__http_judgment *verdict, idem__grant *grant) {
  if (idem__scope_covers(grant->scope, guard->required_scope))
    *verdict = (idem__http_judgment){.principal = grant->principal, .grant = grant};
  else
    refuse_scope(guard, verdict, grant);
}

/* --------------------------------------------------------------- askings */

/* Whoever comes with its token now begins anew. */
static void leave_map(idem__asking *asking) {
  idem__map *map = &asking->guard->by_digest;
  const char *key = (const char *)&asking->digest;
  if (idem__map_get(map, key, sizeof asking->digest) == asking)
    idem__map_remove(map, key, sizeof asking->digest);
}

static void free_asking(idem__asking *asking) {
  idem__guard *guard = asking->guard;
  leave_map(asking);
  idem__list_remove(&asking->link);
  idem__token_deinit(&asking->token);
  idem__key_unref(asking->key);
  volatile char *at = asking->text;
  for (size_t i = 0; i < asking->len; i++) at[i] = 0;
  idem__free(&guard->alloc, asking);
}

static void free_waiter(waiter *self) {
  idem__guard *guard = self->asking->guard;
  idem__list_remove(&self->link);
  guard->waiting--;
  idem__free(&guard->alloc, self);
}

static void end_asking(idem__asking *asking, const idem__http_judgment *verdict) {
  while (!idem__list_empty(&asking->waiters)) {
    waiter *first = IDEM__CONTAINER(asking->waiters.next, waiter, link);
    idem_http_wait *wait = first->wait;
    free_waiter(first);
    idem__http_resume(wait, verdict);
  }
  free_asking(asking);
}

void idem__asking_accept(idem__asking *asking, idem__grant *grant) {
  idem__http_judgment verdict;
  let_in(asking->guard, &verdict, grant);
  end_asking(asking, &verdict);
}

void idem__asking_refuse(idem__asking *asking, int status, const char *why) {
  idem__http_judgment verdict;
  refuse_token(asking->guard, &verdict, status, why);
  end_asking(asking, &verdict);
}

void idem__asking_fail(idem__asking *asking) {
  asking->step = IDEM__ASKING_FAILED;
  idem__guard_hurry(asking->guard);
}

/* Nobody waits for it any more. What a thread has begun to look at is remembered all the same. */
static void abandon(idem__asking *asking) {
  idem__guard *guard = asking->guard;
  bool asked = asking->step == IDEM__ASKING_SERVER;
  if (asking->step == IDEM__ASKING_SIGNATURE) {
    if (uv_cancel((uv_req_t *)&asking->work) == 0) leave_map(asking);
    return;
  }
  idem_fetch_cancel(asking->fetch);
  free_asking(asking);
  if (!asked) return;
  guard->servers_asked--;
  idem__guard_next_turn(guard);
}

static void on_gone(void *user) {
  waiter *self = user;
  idem__asking *asking = self->asking;
  idem_http_wait *wait = self->wait;
  free_waiter(self);
  idem_http_resume(wait, 503, NULL); /* nobody hears it: the handle goes */
  if (idem__list_empty(&asking->waiters)) abandon(asking);
}

/* -------------------------------------------------------------- signatures */

static void maybe_closed(idem__guard *guard);

static void on_thread(uv_work_t *work) {
  idem__asking *asking = work->data;
  idem__signed token = idem__token_signed(&asking->token);
  asking->verified = asking->key->crypto->verify(asking->key->handle, &token);
}

static void take_verified(idem__asking *asking) {
  idem__guard *guard = asking->guard;
  idem__grant *grant = NULL;
  const char *why = "the signature of the token is wrong";
  idem_status status = asking->verified;
  if (atomic_load_explicit(&asking->key->retired, memory_order_relaxed)) status = IDEM_E_INVAL;
  if (status == IDEM_OK)
    status = idem__token_grant(&guard->rules, &guard->alloc, &asking->token, &grant, &why);
  if (status == IDEM_OK) {
    idem__remembered_add(&guard->remembered, asking->digest, grant, asking->key, UINT64_MAX);
    idem__asking_accept(asking, grant);
  } else {
    idem__asking_refuse(asking, status == IDEM_E_INVAL ? 401 : 503,
                        status == IDEM_E_INVAL ? why : "the token cannot be looked at now");
  }
  idem__grant_unref(grant);
}

static void on_verified(uv_work_t *work, int status) {
  idem__asking *asking = work->data;
  idem__guard *guard = asking->guard;
  guard->jobs--;
  if (status != 0) asking->verified = IDEM_E_CANCELLED;
  take_verified(asking);
  maybe_closed(guard);
}

void idem__asking_verify(idem__asking *asking, idem__key *key) {
  idem__guard *guard = asking->guard;
  asking->key = idem__key_ref(key);
  asking->step = IDEM__ASKING_SIGNATURE;
  asking->work.data = asking;
  if (uv_queue_work(guard->runtime->loop, &asking->work, on_thread, on_verified) == 0)
    guard->jobs++;
  else
    idem__asking_fail(asking); /* unreachable: libuv refuses no job that has a function */
}

/* ------------------------------------------------------------- newcomers */

static bool may_wait(const idem__guard *guard, const idem__ip *client) {
  size_t same = 0;
  if (guard->waiting >= WAITING_MAX || guard->jobs >= JOBS_MAX) return false;
  if (guard->waiting < CLIENT_WAITING_MAX) return true;
  for (const idem__list *at = guard->askings.next; at != &guard->askings; at = at->next) {
    const idem__asking *asking = IDEM__CONTAINER(at, idem__asking, link);
    for (const idem__list *each = asking->waiters.next; each != &asking->waiters; each = each->next)
      same += memcmp(&IDEM__CONTAINER(each, waiter, link)->client, client, sizeof *client) == 0;
  }
  return same < CLIENT_WAITING_MAX;
}

static bool add_waiter(idem__asking *asking, const idem_http_caller *caller) {
  idem__guard *guard = asking->guard;
  idem__ip client = idem__ip_client(idem__http_caller_client(caller));
  if (!may_wait(guard, &client)) return false;
  waiter *self = idem__malloc(&guard->alloc, sizeof *self);
  if (!self) return false;
  *self = (waiter){.asking = asking, .client = client};
  self->wait = idem_http_caller_wait(caller, on_gone, self);
  if (!self->wait) {
    idem__free(&guard->alloc, self);
    return false;
  }
  idem__list_append(&asking->waiters, &self->link);
  guard->waiting++;
  return true;
}

static idem__asking *new_asking(idem__guard *guard, idem__token_digest digest, const char *text,
                                size_t len) {
  idem__asking *asking = idem__malloc(&guard->alloc, sizeof *asking + len + 1);
  if (!asking) return NULL;
  *asking = (idem__asking){.guard = guard,
                           .digest = digest,
                           .step = IDEM__ASKING_KEYS,
                           .since_ms = idem__clock_ms(),
                           .len = len};
  memcpy(asking->text, text, len);
  asking->text[len] = '\0';
  idem__list_init(&asking->waiters);
  idem__list_append(&guard->askings, &asking->link);
  if (idem__map_put(&guard->by_digest, (const char *)&asking->digest, sizeof asking->digest,
                    asking) == IDEM_OK)
    return asking;
  free_asking(asking);
  return NULL;
}

/* What can be said of it without its key; NULL: nothing against it. */
static const char *fault_of(idem__asking *asking, idem_status *status) {
  idem__guard *guard = asking->guard;
  const char *why = "tokens of this kind are not taken";
  bool jwt = idem__token_is_jwt(asking->text, asking->len);
  *status = jwt || guard->introspection_url ? IDEM_OK : IDEM_E_INVAL;
  if (!jwt || !guard->issuer_count) return *status == IDEM_OK ? NULL : why;
  *status = idem__token_read(&guard->alloc, asking->text, asking->len, &asking->token, &why);
  if (*status == IDEM_OK)
    *status = idem__token_check(&guard->rules, &asking->token, idem__guard_now_s(), &asking->issuer,
                                &why);
  return *status == IDEM_OK ? NULL : why;
}

/* Somebody waits for it: the next step, none of which ends before this returns. */
static void begin(idem__asking *asking) {
  idem__guard *guard = asking->guard;
  if (!asking->token.claims) {
    idem__asking_introspect(asking);
    return;
  }
  idem__key_source *source = &guard->sources[asking->issuer];
  idem__key *key = idem__key_set_find(&source->keys, &asking->token);
  if (!key && source->jwks_file) {
    idem__source_look(source);
    key = idem__key_set_find(&source->keys, &asking->token);
  }
  if (key)
    idem__asking_verify(asking, key);
  else
    idem__source_want(source);
}

static void ask(idem__guard *guard, const idem_http_caller *caller, idem__token_digest digest,
                const char *text, size_t len, idem__http_judgment *verdict) {
  idem_status status = IDEM_OK;
  idem__asking *asking = idem__map_get(&guard->by_digest, (const char *)&digest, sizeof digest);
  bool known = asking != NULL;
  if (!asking) asking = new_asking(guard, digest, text, len);
  const char *why = known || !asking ? NULL : fault_of(asking, &status);
  if (why && status == IDEM_E_INVAL)
    refuse_token(guard, verdict, 401, why);
  else if (!asking || status != IDEM_OK || !add_waiter(asking, caller))
    refuse_token(guard, verdict, 503, "too many tokens are being looked at");
  else
    verdict->status = IDEM_HTTP_LATER;
  if (!known && asking && verdict->status != IDEM_HTTP_LATER)
    free_asking(asking);
  else if (!known && asking)
    begin(asking);
}

/* --------------------------------------------------------------- the judge */

/* Of "Bearer TOKEN"; NULL: it is something else. */
static const char *bearer_of(const char *value, size_t *len) {
  if (!value || *len < 8 || !idem__text_equal_nocase(value, 7, "Bearer ", 7)) return NULL;
  value += 7;
  *len -= 7;
  while (*len && *value == ' ') value++, --*len;
  while (*len && value[*len - 1] == ' ') --*len;
  return *len ? value : NULL;
}

/* Keys that were taken back must be missed some day, by those who only bring known ones, too. */
static void refresh(idem__guard *guard, uint64_t now_s) {
  if (now_s < guard->refresh_s) return;
  guard->refresh_s = now_s + IDEM__GUARD_KEYS_S;
  for (size_t i = 0; i < guard->issuer_count; i++) idem__source_look(&guard->sources[i]);
}

void idem__guard_judge(const idem_http_caller *caller, idem__http_judgment *verdict, void *user) {
  idem__guard *guard = user;
  idem__view shown = idem__http_caller_authorization(caller);
  size_t len = shown.len;
  const char *token = bearer_of(shown.at, &len);
  if (!token) { /* who shows nothing is told nothing but where to go (RFC 6750, 3.1) */
    refuse(guard, verdict, 401, &(idem__bearer_challenge){.scope = guard->required_scope});
    return;
  }
  if (len > IDEM__TOKEN_BYTES) {
    refuse_token(guard, verdict, 401, "the token is longer than any that is taken");
    return;
  }
  uint64_t now_s = idem__guard_now_s();
  idem__token_digest digest = idem__remembered_digest(&guard->remembered, token, len);
  refresh(guard, now_s);
  idem__grant *grant = idem__remembered_find(&guard->remembered, digest, now_s);
  if (grant)
    let_in(guard, verdict, grant);
  else if (idem__token_is_text(token, len)) /* what is remembered was */
    ask(guard, caller, digest, token, len, verdict);
  else
    refuse_token(guard, verdict, 401, "that is no token");
}

/* ----------------------------------------------------------------- the end */

static void free_guard(idem__guard *guard) {
  idem_alloc alloc = guard->alloc;
  for (size_t i = 0; i < guard->issuer_count && guard->sources; i++)
    idem__source_close(&guard->sources[i]);
  idem__remembered_deinit(&guard->remembered);
  idem__map_deinit(&guard->by_digest);
  idem__buf_deinit(&guard->line);
  idem__guard_free_options(guard);
  idem__free(&alloc, guard);
}

static void maybe_closed(idem__guard *guard) {
  if (!guard->timer_closed || guard->jobs) return;
  void (*closed)(void *user) = guard->closed;
  void *user = guard->closed_user;
  free_guard(guard);
  closed(user);
}

static void on_timer_closed(uv_handle_t *handle) {
  idem__guard *guard = handle->data;
  guard->timer_closed = true;
  maybe_closed(guard);
}

void idem__guard_close(idem__guard *guard, void (*closed)(void *user), void *user) {
  guard->closing = true;
  guard->closed = closed;
  guard->closed_user = user;
  for (size_t i = 0; i < guard->issuer_count; i++) idem__source_close(&guard->sources[i]);
  uv_close((uv_handle_t *)&guard->timer, on_timer_closed);
}

/* ------------------------------------------------------------------ making */

static const idem__crypto *load_crypto(idem_log *log) {
  char why[256] = "";
  const idem__jose_module *jose = idem__module_load("jose", IDEM__JOSE_SYMBOL, why, sizeof why);
  if (jose && jose->version == IDEM__JOSE_VERSION) return jose->crypto;
  if (jose) snprintf(why, sizeof why, "idem-jose.so is not a module of this version");
  idem_logf(log, IDEM_LOG_ERROR, "no signatures", "%s", why);
  return NULL;
}

static idem_status prepare(idem__guard *guard, const idem_http_auth *opts, const char *url) {
  uint64_t secret[2];
  if (getrandom(secret, sizeof secret, 0) != sizeof secret) return IDEM_E_SYS;
  idem__remembered_init(&guard->remembered, &guard->alloc, secret);
  idem__map_init(&guard->by_digest, &guard->alloc, secret[1]);
  guard->crypto = opts->issuer_count ? load_crypto(guard->log) : NULL;
  if (opts->issuer_count && !guard->crypto) return IDEM_E_SYS;
  idem_status status = idem__guard_take(guard, opts, url);
  for (size_t i = 0; i < guard->issuer_count && status == IDEM_OK; i++) {
    idem__key_source *source = &guard->sources[i];
    idem__source_look(source);
    if (source->jwks_file && !source->keys.count) status = IDEM_E_INVAL;
  }
  guard->refresh_s = idem__guard_now_s() + IDEM__GUARD_KEYS_S;
  return status;
}

idem_status idem__guard_new(idem__runtime *runtime, const idem_http_auth *opts, const char *url,
                            idem_log *log, idem__guard **out) {
  idem__guard *guard = idem__calloc(&runtime->alloc, sizeof *guard);
  *out = NULL;
  if (!guard) return IDEM_E_NOMEM;
  guard->runtime = runtime;
  guard->alloc = runtime->alloc;
  guard->log = log;
  idem__list_init(&guard->askings);
  idem__list_init(&guard->remembered.oldest);
  idem__buf_init(&guard->line, &guard->alloc, CHALLENGE_BYTES);
  uv_timer_init(runtime->loop, &guard->timer);
  guard->timer.data = guard;
  *out = guard; /* its timer must be closed, whatever comes */
  return prepare(guard, opts, url);
}
