/* guard_shared.c - the keys of an issuer are the same for all loops of a process that ask the same place: one of them fetches, all hear of
 * it. Each has a set of its own to look into, of the same keys, so that no request takes a lock; who fetches publishes. See
 * docs/internals/auth.md. */
#include "uv/guard.h"

#include <string.h>

#define RETRY_MS 1000u /* after a failure; doubled with each, up to the usual pause */

typedef struct idem__shared_keys {
  idem_list link; /* in `all`; alone: of one guard, as keys of a file are */
  size_t users;
  /* What it is found by. */
  idem_alloc alloc;
  const idem__crypto *crypto;
  char *issuer, *jwks_url, *ca_file, *proxy;
  bool anywhere;
  /* What is known; under `lock`. */
  idem__lock lock;
  idem_list members;
  idem__key_set keys;
  char *found_url;
  const idem__key_source *fetcher; /* NULL: nobody */
  bool asked;                      /* a fetch has begun, ... */
  uint64_t began_ms;               /* ... the last one then, ... */
  uint64_t settled_ms;             /* ... and the last that ended, then */
  unsigned failures;               /* in a row */
  uint64_t version;
} idem__shared_keys;

/* Under its lock, the users of each, too. */
static idem__lock all_lock = {ATOMIC_FLAG_INIT};
static idem_list all = {&all, &all};

/* ------------------------------------------------------------------ finding */

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static bool is_for(const idem__shared_keys *shared, const idem__key_source *source) {
  const idem__guard *guard = source->guard;
  const idem_alloc *a = &shared->alloc, *b = &guard->alloc;
  return same_text(shared->issuer, source->issuer) &&
         same_text(shared->jwks_url, source->jwks_url) &&
         same_text(shared->ca_file, guard->ca_file) && same_text(shared->proxy, guard->proxy) &&
         shared->anywhere == guard->anywhere && shared->crypto == guard->crypto &&
         a->malloc == b->malloc && a->realloc == b->realloc && a->free == b->free &&
         a->ctx == b->ctx;
}

static idem__shared_keys *find(const idem__key_source *source) {
  for (idem_list *at = all.next; at != &all; at = at->next) {
    idem__shared_keys *shared = IDEM_CONTAINER(at, idem__shared_keys, link);
    if (is_for(shared, source)) return shared;
  }
  return NULL;
}

static void free_shared(idem__shared_keys *shared) {
  idem_alloc alloc = shared->alloc;
  char *texts[] = {shared->issuer, shared->jwks_url, shared->ca_file, shared->proxy,
                   shared->found_url};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) idem__free(&alloc, texts[i]);
  idem__key_set_deinit(&shared->keys);
  idem__free(&alloc, shared);
}

static bool copy(const idem_alloc *alloc, const char *from, char **to) {
  *to = from ? idem__strndup(alloc, from, strlen(from)) : NULL;
  return !from || *to;
}

static idem__shared_keys *new_shared(const idem__key_source *source) {
  const idem__guard *guard = source->guard;
  idem__shared_keys *shared = idem__calloc(&guard->alloc, sizeof *shared);
  if (!shared) return NULL;
  shared->alloc = guard->alloc;
  shared->crypto = guard->crypto;
  shared->anywhere = guard->anywhere;
  idem__lock_init(&shared->lock);
  idem_list_init(&shared->link);
  idem_list_init(&shared->members);
  const idem_alloc *alloc = &shared->alloc;
  if (copy(alloc, source->issuer, &shared->issuer) &&
      copy(alloc, source->jwks_url, &shared->jwks_url) &&
      copy(alloc, guard->ca_file, &shared->ca_file) && copy(alloc, guard->proxy, &shared->proxy))
    return shared;
  free_shared(shared);
  return NULL;
}

idem_status idem__shared_keys_join(idem__key_source *source) {
  idem__lock_take(&all_lock);
  idem__shared_keys *shared = source->jwks_file ? NULL : find(source);
  if (!shared) {
    shared = new_shared(source);
    if (shared && !source->jwks_file) idem_list_append(&all, &shared->link);
  }
  if (shared) shared->users++;
  idem__lock_give(&all_lock);
  source->shared = shared;
  if (!shared) return IDEM_E_NOMEM;
  idem__lock_take(&shared->lock);
  idem_list_append(&shared->members, &source->member);
  idem__lock_give(&shared->lock);
  idem__shared_keys_news(source);
  return IDEM_OK;
}

/* -------------------------------------------------------------------- telling */

/* Under the lock. */
static void tell_others(const idem__shared_keys *shared, const idem__key_source *but) {
  for (const idem_list *at = shared->members.next; at != &shared->members; at = at->next) {
    const idem__key_source *source = IDEM_CONTAINER(at, idem__key_source, member);
    if (source != but) uv_async_send(&source->guard->news);
  }
}

static void copy_keys(idem__key_set *to, const idem__key_set *from) {
  idem__key_set old = *to;
  *to = *from;
  for (size_t i = 0; i < to->count; i++) idem__key_ref(to->keys[i]);
  idem__key_set_deinit(&old);
}

void idem__shared_keys_leave(idem__key_source *source) {
  idem__shared_keys *shared = source->shared;
  if (!shared) return;
  source->shared = NULL;
  idem__lock_take(&shared->lock);
  idem_list_remove(&source->member);
  if (shared->fetcher == source) {
    shared->fetcher = NULL;
    shared->asked = false;
    tell_others(shared, source);
  }
  idem__lock_give(&shared->lock);
  idem__lock_take(&all_lock);
  bool last = --shared->users == 0;
  if (last) idem_list_remove(&shared->link);
  idem__lock_give(&all_lock);
  if (last) free_shared(shared);
}

/* ------------------------------------------------------------------- fetching */

static uint64_t next_ms(const idem__shared_keys *shared, uint64_t age_ms) {
  unsigned failures = shared->failures < 5 ? shared->failures : 5;
  uint64_t retry = failures ? (uint64_t)RETRY_MS << (failures - 1) : age_ms;
  if (!shared->asked) return 0;
  return shared->began_ms + (retry < age_ms ? retry : age_ms);
}

uint64_t idem__shared_keys_next_ms(const idem__key_source *source) {
  idem__shared_keys *shared = source->shared;
  idem__lock_take(&shared->lock);
  uint64_t next = shared->fetcher ? UINT64_MAX : next_ms(shared, idem__guard_pause_ms);
  idem__lock_give(&shared->lock);
  return next;
}

bool idem__shared_keys_begin(idem__key_source *source, uint64_t now_ms, uint64_t age_ms) {
  idem__shared_keys *shared = source->shared;
  idem__lock_take(&shared->lock);
  bool may = !shared->fetcher && next_ms(shared, age_ms) <= now_ms;
  if (may) {
    shared->fetcher = source;
    shared->asked = true;
    shared->began_ms = now_ms;
  }
  idem__lock_give(&shared->lock);
  if (may) idem__shared_keys_news(source); /* what is published next comes after what was */
  return may;
}

/* Without memory for where they are it is found once more. */
void idem__shared_keys_end(idem__key_source *source, bool good) {
  idem__shared_keys *shared = source->shared;
  char *found = NULL;
  copy(&shared->alloc, source->found_url, &found);
  idem__lock_take(&shared->lock);
  char *old = shared->found_url;
  shared->found_url = found;
  shared->fetcher = NULL;
  shared->settled_ms = shared->began_ms;
  shared->failures = good ? 0 : shared->failures + 1;
  shared->version++;
  if (good) copy_keys(&shared->keys, &source->keys);
  source->version = shared->version;
  source->settled_ms = shared->settled_ms;
  source->failures = shared->failures;
  tell_others(shared, source);
  idem__lock_give(&shared->lock);
  idem__free(&shared->alloc, old);
}

bool idem__shared_keys_news(idem__key_source *source) {
  idem__shared_keys *shared = source->shared;
  idem__lock_take(&shared->lock);
  bool news = source->version != shared->version;
  if (news) {
    source->version = shared->version;
    source->settled_ms = shared->settled_ms;
    source->failures = shared->failures;
    copy_keys(&source->keys, &shared->keys);
    idem__free(&source->guard->alloc, source->found_url);
    copy(&source->guard->alloc, shared->found_url, &source->found_url);
  }
  idem__lock_give(&shared->lock);
  return news;
}
