/* proofs.c - see proofs.h. Two listeners of a process may serve one resource, each with several loops: a proof that was shown to one must
 * not be good at another. */
#include "uv/proofs.h"

#include <idem/uv.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

struct idem__proofs {
  idem_list link;
  unsigned refs;
  idem_alloc alloc;
  char *resource;
  uint64_t longest_s;
  pthread_mutex_t lock; /* over the replays: a table may have to grow */
  idem__replays *replays;
  uint8_t nonce_key[IDEM__NONCE_KEY_BYTES];
};

size_t idem__proofs_most = IDEM__REPLAY_BYTES;

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static idem_list all = {&all, &all};

/* What is shared outlives whoever made it, so it must be of the same memory. */
static bool is_for(const idem__proofs *proofs, const idem_alloc *alloc, const char *resource,
                   uint64_t longest_s) {
  return strcmp(proofs->resource, resource) == 0 && proofs->longest_s == longest_s &&
         memcmp(&proofs->alloc, alloc, sizeof *alloc) == 0;
}

static idem__proofs *find(const idem_alloc *alloc, const char *resource, uint64_t longest_s) {
  for (idem_list *at = all.next; at != &all; at = at->next) {
    idem__proofs *proofs = IDEM_CONTAINER(at, idem__proofs, link);
    if (is_for(proofs, alloc, resource, longest_s)) return proofs;
  }
  return NULL;
}

static void free_proofs(idem__proofs *proofs) {
  idem_alloc alloc = proofs->alloc;
  idem__replays_free(proofs->replays);
  idem__free(&alloc, proofs->resource);
  pthread_mutex_destroy(&proofs->lock);
  explicit_bzero(proofs->nonce_key, sizeof proofs->nonce_key);
  idem__free(&alloc, proofs);
}

static idem_status make(const idem_alloc *alloc, const char *resource, uint64_t longest_s,
                        idem__proofs **out) {
  idem__proofs *proofs = idem__calloc(alloc, sizeof *proofs);
  if (!proofs) return IDEM_E_NOMEM;
  proofs->alloc = *alloc;
  proofs->longest_s = longest_s;
  pthread_mutex_init(&proofs->lock, NULL);
  proofs->resource = idem__strndup(alloc, resource, strlen(resource));
  proofs->replays = idem__replays_new(alloc, longest_s, idem__proofs_most, idem_random_seed());
  idem_status status = proofs->resource && proofs->replays ? IDEM_OK : IDEM_E_NOMEM;
  ssize_t want = sizeof proofs->nonce_key;
  if (status == IDEM_OK && getrandom(proofs->nonce_key, sizeof proofs->nonce_key, 0) != want)
    status = IDEM_E_SYS; /* unreachable: the kernel has always given so few */
  if (status != IDEM_OK) {
    free_proofs(proofs);
    return status;
  }
  idem_list_append(&all, &proofs->link);
  *out = proofs;
  return IDEM_OK;
}

idem_status idem__proofs_get(const idem_alloc *alloc, const char *resource, uint64_t longest_s,
                             idem__proofs **out) {
  idem_status status = IDEM_OK;
  pthread_mutex_lock(&all_lock);
  *out = find(alloc, resource, longest_s);
  if (!*out) status = make(alloc, resource, longest_s, out);
  if (*out) (*out)->refs++;
  pthread_mutex_unlock(&all_lock);
  return status;
}

void idem__proofs_release(idem__proofs *proofs) {
  if (!proofs) return;
  pthread_mutex_lock(&all_lock);
  if (--proofs->refs == 0) {
    idem_list_remove(&proofs->link);
    free_proofs(proofs);
  }
  pthread_mutex_unlock(&all_lock);
}

idem__replay idem__proofs_add(idem__proofs *proofs, const uint8_t number[IDEM_SHA256_BYTES],
                              const char *owner, uint64_t now_s, uint64_t ends_s) {
  pthread_mutex_lock(&proofs->lock);
  idem__replay verdict = idem__replays_add(proofs->replays, number, owner, now_s, ends_s);
  pthread_mutex_unlock(&proofs->lock);
  return verdict;
}

size_t idem__proofs_bytes(idem__proofs *proofs) {
  pthread_mutex_lock(&proofs->lock);
  size_t bytes = idem__replays_bytes(proofs->replays);
  pthread_mutex_unlock(&proofs->lock);
  return bytes;
}

const uint8_t *idem__proofs_nonce_key(const idem__proofs *proofs) { return proofs->nonce_key; }
