/* remember.c - tokens that were good, so that each is verified once. Known by a digest of 128 bits under a secret of this
 * process (SipHash-2-4, which is made to tell forged texts): the tokens themselves are not kept. The oldest make room. */
#include "../base/hash.h"
#include "bearer.h"

#include <string.h>

typedef struct remembered_token {
  idem_list link;
  idem__token_digest digest;
  idem__grant *grant;
  idem__key *key; /* NULL: none said so */
  uint64_t until_s;
} remembered_token;

void idem__remembered_init(idem__remembered *self, const idem_alloc *alloc,
                           const uint64_t secret[2]) {
  *self = (idem__remembered){.alloc = *alloc, .secret = {secret[0], secret[1]}};
  idem_map_init(&self->map, &self->alloc, secret[0]);
  idem_list_init(&self->oldest);
}

static size_t bytes_of(const remembered_token *token) {
  return sizeof *token + token->grant->bytes;
}

static void forget(idem__remembered *self, remembered_token *token) {
  idem_map_remove(&self->map, (const char *)&token->digest, sizeof token->digest);
  idem_list_remove(&token->link);
  self->bytes -= bytes_of(token);
  idem__grant_unref(token->grant);
  idem__key_unref(token->key);
  idem__free(&self->alloc, token);
}

static remembered_token *first_of(idem__remembered *self) {
  return idem_list_empty(&self->oldest) ? NULL
                                        : IDEM_CONTAINER(self->oldest.next, remembered_token, link);
}

void idem__remembered_deinit(idem__remembered *self) {
  for (remembered_token *token; (token = first_of(self));) forget(self, token);
  idem_map_deinit(&self->map);
}

/* ---------------------------------------------------------------- digests */

static void take_word(idem__hasher *h, uint64_t word) {
  h->d ^= word;
  idem__hash_round(h);
  idem__hash_round(h);
  h->a ^= word;
}

static uint64_t finish(idem__hasher *h) {
  for (int i = 0; i < 4; i++) idem__hash_round(h);
  return h->a ^ h->b ^ h->c ^ h->d;
}

idem__token_digest idem__remembered_digest(const idem__remembered *self, const char *token,
                                           size_t len) {
  const uint64_t low = self->secret[0], high = self->secret[1];
  const unsigned char *at = (const unsigned char *)token;
  idem__hasher h = {low ^ 0x736f6d6570736575u, high ^ 0x646f72616e646f6du ^ 0xee,
                    low ^ 0x6c7967656e657261u, high ^ 0x7465646279746573u};
  idem__token_digest digest;
  for (size_t i = 0; i + 8 <= len; i += 8) take_word(&h, idem__load8(at + i));
  take_word(&h, (uint64_t)len << 56 | idem__load_rest(at, len));
  h.c ^= 0xee;
  digest.words[0] = finish(&h);
  h.b ^= 0xdd;
  digest.words[1] = finish(&h);
  return digest;
}

/* ------------------------------------------------------------------ story */

idem__grant *idem__remembered_find(idem__remembered *self, idem__token_digest digest,
                                   uint64_t now_s) {
  remembered_token *token = idem_map_get(&self->map, (const char *)&digest, sizeof digest);
  if (!token) return NULL;
  bool retired = token->key && atomic_load_explicit(&token->key->retired, memory_order_relaxed);
  if (!retired && now_s < token->until_s) return token->grant;
  forget(self, token);
  return NULL;
}

static void make_room(idem__remembered *self, size_t bytes) {
  for (remembered_token *token; (token = first_of(self));) {
    if (self->map.count < IDEM__REMEMBERED_MAX && self->bytes + bytes <= IDEM__REMEMBERED_BYTES)
      return;
    forget(self, token);
  }
}

void idem__remembered_add(idem__remembered *self, idem__token_digest digest, idem__grant *grant,
                          idem__key *key, uint64_t until_s) {
  remembered_token *known = idem_map_get(&self->map, (const char *)&digest, sizeof digest);
  if (known) forget(self, known);
  remembered_token *token = idem__malloc(&self->alloc, sizeof *token);
  if (!token) return;
  *token = (remembered_token){.digest = digest,
                              .grant = grant,
                              .key = key,
                              .until_s = until_s < grant->ends_s ? until_s : grant->ends_s};
  make_room(self, bytes_of(token));
  if (idem_map_put(&self->map, (const char *)&token->digest, sizeof token->digest, token) !=
      IDEM_OK) {
    idem__free(&self->alloc, token);
    return;
  }
  idem__grant_ref(grant);
  idem__key_ref(key);
  idem_list_append(&self->oldest, &token->link);
  self->bytes += bytes_of(token);
}
