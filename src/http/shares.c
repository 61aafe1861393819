/* shares.c - how many connections each client has, so that no one has them all.
 * Told apart as the rate limiter does: by address, an IPv6 network being one client. May be shared by
 * threads. See docs/internals/http.md. */
#include "http.h"

typedef struct share {
  idem__ip who;
  size_t count;
} share;

struct idem__shares {
  idem_alloc alloc;
  idem__lock busy;
  idem_map by_client;
  size_t most;
};

idem_status idem__shares_new(const idem_alloc *alloc, size_t most, uint64_t seed,
                             idem__shares **out) {
  idem__shares *shares = idem__calloc(alloc, sizeof *shares);
  *out = shares;
  if (!shares) return IDEM_E_NOMEM;
  shares->alloc = idem__alloc_or_default(alloc);
  shares->most = most;
  idem__lock_init(&shares->busy);
  idem_map_init(&shares->by_client, &shares->alloc, seed);
  return IDEM_OK;
}

void idem__shares_free(idem__shares *shares) {
  if (!shares) return;
  idem_alloc alloc = shares->alloc;
  share *one;
  for (size_t at = 0; (one = idem_map_next(&shares->by_client, &at));) idem__free(&alloc, one);
  idem_map_deinit(&shares->by_client);
  idem__free(&alloc, shares);
}

static share *find(idem__shares *shares, const idem__ip *key) {
  return idem_map_get(&shares->by_client, (const char *)key->bytes, sizeof key->bytes);
}

static share *add(idem__shares *shares, const idem__ip *key) {
  share *one = idem__calloc(&shares->alloc, sizeof *one);
  if (!one) return NULL;
  one->who = *key;
  const char *bytes = (const char *)one->who.bytes;
  if (idem_map_put(&shares->by_client, bytes, sizeof key->bytes, one) == IDEM_OK) return one;
  idem__free(&shares->alloc, one);
  return NULL;
}

bool idem__shares_take(idem__shares *shares, const idem__ip *who) {
  idem__ip key = idem__ip_client(who);
  idem__lock_take(&shares->busy);
  share *one = find(shares, &key);
  if (!one) one = add(shares, &key);
  bool allowed = one && one->count < shares->most;
  if (allowed) one->count++;
  idem__lock_give(&shares->busy);
  return allowed;
}

void idem__shares_give(idem__shares *shares, const idem__ip *who) {
  idem__ip key = idem__ip_client(who);
  idem__lock_take(&shares->busy);
  share *one = find(shares, &key);
  if (one && --one->count == 0) {
    idem_map_remove(&shares->by_client, (const char *)key.bytes, sizeof key.bytes);
    idem__free(&shares->alloc, one);
  }
  idem__lock_give(&shares->busy);
}
