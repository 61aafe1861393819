/* limiter.c - how often a client may ask: token buckets. Where several processes share a limit, what was taken here is
 * reported in blocks, and what the others took is charged to the client's bucket when the answer comes: nobody waits for
 * it. See docs/internals/http.md. */
#include "checks.h"

#include <string.h>

#define WAYS 8   /* places a client may be in; the fullest of them gives way */
#define BLOCKS 8 /* reports of one client while it takes all that it may */

/* Time is kept as "when the bucket will be full again": one number is the whole state. */
typedef struct bucket {
  idem__ip who;
  uint64_t full_us;
  uint64_t seen;    /* what all had taken when that was last heard of */
  uint32_t taken;   /* and not reported */
  uint32_t charged; /* of these, for which the others were charged as much, unasked */
  bool asking;      /* a report is on its way */
  bool heard;       /* `seen` is known */
} bucket;

struct idem__limiter {
  const idem_alloc *alloc;
  idem__lock busy;
  uint64_t token_us; /* time one token takes to come back */
  uint64_t burst_us; /* time a whole bucket takes */
  uint64_t now_us;   /* the newest that somebody told */
  uint64_t seed;
  size_t sets;
  uint32_t count;
  uint32_t block; /* tokens of one report */
  uint32_t late;  /* that may be taken while one is on its way */
  idem__limiter_others others;
  idem__limiter_report report; /* NULL: it is nobody else's */
  void *user;
  bucket buckets[];
};

idem_status idem__limiter_new(const idem_alloc *alloc, uint32_t count, uint32_t seconds,
                              size_t clients, uint64_t seed, idem__limiter **out) {
  *out = NULL;
  if (!count || !seconds || clients > ((size_t)1 << 24)) return IDEM_E_INVAL;
  size_t sets = ((clients ? clients : 4096) + WAYS - 1) / WAYS;
  idem__limiter *limiter =
      idem__calloc(alloc, sizeof *limiter + sets * WAYS * sizeof limiter->buckets[0]);
  if (!limiter) return IDEM_E_NOMEM;
  limiter->alloc = alloc;
  idem__lock_init(&limiter->busy);
  limiter->burst_us = (uint64_t)seconds * 1000000u;
  limiter->token_us = limiter->burst_us / count;
  if (!limiter->token_us) limiter->token_us = 1;
  limiter->seed = seed;
  limiter->sets = sets;
  limiter->count = count;
  *out = limiter;
  return IDEM_OK;
}

void idem__limiter_free(idem__limiter *limiter) {
  if (limiter) idem__free(limiter->alloc, limiter);
}

void idem__limiter_share(idem__limiter *limiter, idem__limiter_report report,
                         idem__limiter_others others, void *user) {
  limiter->report = report;
  limiter->others = others;
  limiter->user = user;
  limiter->block = limiter->count / BLOCKS ? limiter->count / BLOCKS : 1;
  limiter->late = limiter->count / 4 + 1;
}

static bucket *set_of(idem__limiter *limiter, const idem__ip *key) {
  uint64_t hash = idem__hash(key->bytes, sizeof key->bytes, limiter->seed);
  return limiter->buckets + (hash % limiter->sets) * WAYS;
}

static bucket *known_bucket(idem__limiter *limiter, const idem__ip *key) {
  bucket *set = set_of(limiter, key);
  for (size_t i = 0; i < WAYS; i++)
    if (memcmp(&set[i].who, key, sizeof *key) == 0) return &set[i];
  return NULL;
}

static bucket *find_bucket(idem__limiter *limiter, const idem__ip *key) {
  bucket *known = known_bucket(limiter, key), *set = set_of(limiter, key), *fullest = set;
  if (known) return known;
  for (size_t i = 0; i < WAYS; i++)
    if (set[i].full_us < fullest->full_us) fullest = &set[i];
  *fullest = (bucket){.who = *key};
  return fullest;
}

/* With the lock held. Never more than an empty bucket, so that one who waits is let in again in time. */
static void charge(const idem__limiter *limiter, bucket *self, uint64_t tokens) {
  uint64_t most = limiter->now_us + limiter->burst_us;
  uint64_t from = self->full_us > limiter->now_us ? self->full_us : limiter->now_us;
  if (tokens > limiter->count) tokens = limiter->count;
  self->full_us = from + tokens * limiter->token_us;
  if (self->full_us > most) self->full_us = most;
}

/* With the lock held: how much is to be reported now; 0: nothing. While a report is not answered the others are taken to
 * take as much as this one. */
static uint32_t due(const idem__limiter *limiter, bucket *self) {
  uint32_t taken = ++self->taken, uncharged = taken - self->charged;
  if (!limiter->report || (!self->asking && taken < limiter->block)) return 0;
  if (self->asking && uncharged < limiter->late) return 0;
  if (self->asking) {
    charge(limiter, self, (uint64_t)uncharged * limiter->others(limiter->user));
    self->charged = taken;
    return 0;
  }
  self->asking = true;
  self->taken = self->charged = 0;
  return taken;
}

bool idem__limiter_take(idem__limiter *limiter, const idem__ip *who, uint64_t now_ms,
                        uint32_t *retry_s) {
  idem__ip key = idem__ip_client(who);
  uint64_t now_us = now_ms * 1000u;
  idem__lock_take(&limiter->busy);
  if (now_us > limiter->now_us) limiter->now_us = now_us;
  bucket *found = find_bucket(limiter, &key);
  uint64_t from = found->full_us > now_us ? found->full_us : now_us;
  uint64_t full = from + limiter->token_us;
  bool allowed = full <= now_us + limiter->burst_us;
  if (allowed) found->full_us = full;
  uint32_t report = allowed ? due(limiter, found) : 0;
  idem__lock_give(&limiter->busy);
  if (report) limiter->report(limiter->user, &key, report);
  if (!allowed) {
    uint64_t wait = full - now_us - limiter->burst_us;
    *retry_s = (uint32_t)((wait + 999999u) / 1000000u);
  }
  return allowed;
}

/* --------------------------------------------------------------- with others */

/* What all had taken before the first report is from another time, perhaps: it is where counting begins. A count that
 * began anew counts whole. */
void idem__limiter_heard(idem__limiter *limiter, const idem__ip *who, uint64_t before,
                         uint32_t own) {
  idem__lock_take(&limiter->busy);
  bucket *self = known_bucket(limiter, who);
  if (self) {
    uint64_t others = before >= self->seen ? before - self->seen : before;
    if (self->heard) charge(limiter, self, others);
    self->seen = before + own;
    self->heard = true;
    self->asking = false;
  }
  idem__lock_give(&limiter->busy);
}

void idem__limiter_unheard(idem__limiter *limiter, const idem__ip *who, uint32_t own,
                           size_t others) {
  idem__lock_take(&limiter->busy);
  bucket *self = known_bucket(limiter, who);
  if (self) {
    charge(limiter, self, (uint64_t)own * others);
    self->asking = self->heard = false;
  }
  idem__lock_give(&limiter->busy);
}
