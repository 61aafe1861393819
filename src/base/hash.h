/* hash.h - one keyed hash for every table whose keys a peer may pick: SipHash-1-3, a function for
 * tables by design, under a secret that each process makes for itself. Bytes go through idem__hash;
 * what is made of several words (a JSON value) through a hasher. See docs/internals/base.md. */
#ifndef IDEM_BASE_HASH_H
#define IDEM_BASE_HASH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct idem__hash_secret {
  _Atomic bool ready;
  uint64_t low, high;
} idem__hash_secret;
extern idem__hash_secret idem__hash_own;

/* Makes the secret, once: random bits of the C library's, or where it has none, addresses and the
 * time. The fuzz targets have the same in every run, so that what one found is found again. */
void idem__hash_make_secret(void);
/* For tests: a secret that is known. What was hashed before is found no more. */
void idem__hash_set_secret(uint64_t low, uint64_t high);

typedef struct idem__hasher {
  uint64_t a, b, c, d;
} idem__hasher;

static inline uint64_t idem__rotate(uint64_t word, unsigned by) {
  return word << by | word >> (64 - by);
}

static inline void idem__hash_round(idem__hasher *h) {
  h->a += h->b;
  h->c += h->d;
  h->b = idem__rotate(h->b, 13) ^ h->a;
  h->d = idem__rotate(h->d, 16) ^ h->c;
  h->a = idem__rotate(h->a, 32) + h->d;
  h->c += h->b;
  h->b = idem__rotate(h->b, 17) ^ h->c;
  h->d = idem__rotate(h->d, 21) ^ h->a;
  h->c = idem__rotate(h->c, 32);
}

/* Under a secret of the caller's, for hashes that outlive the process. */
static inline idem__hasher idem__hash_under(uint64_t low, uint64_t high) {
  return (idem__hasher){low ^ 0x736f6d6570736575u, high ^ 0x646f72616e646f6du,
                        low ^ 0x6c7967656e657261u, high ^ 0x7465646279746573u};
}

/* The seed tells tables apart; that nobody can guess a hash is the secret's doing. */
static inline idem__hasher idem__hash_begin(uint64_t seed) {
  if (__builtin_expect(!atomic_load_explicit(&idem__hash_own.ready, memory_order_acquire), 0))
    idem__hash_make_secret();
  return idem__hash_under(idem__hash_own.low ^ seed, idem__hash_own.high);
}

static inline void idem__hash_word(idem__hasher *h, uint64_t word) {
  h->d ^= word;
  idem__hash_round(h);
  h->a ^= word;
}

static inline uint64_t idem__hash_end(idem__hasher h) {
  h.c ^= 0xff;
  for (int i = 0; i < 3; i++) idem__hash_round(&h);
  return h.a ^ h.b ^ h.c ^ h.d;
}

static inline uint64_t idem__load8(const void *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

static inline uint64_t idem__load4(const void *at) {
  uint32_t word;
  memcpy(&word, at, sizeof word);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap32(word);
#endif
  return word;
}

/* The bytes behind the last whole word, as a word; reads nothing outside the text. */
static inline uint64_t idem__load_rest(const unsigned char *text, size_t len) {
  size_t rest = len & 7;
  if (rest == 0) return 0;
  if (len > 8) return idem__load8(text + len - 8) >> (8 * (8 - rest));
  if (rest >= 4) return idem__load4(text) | idem__load4(text + rest - 4) << (8 * (rest - 4));
  return (uint64_t)text[0] | (uint64_t)text[rest / 2] << (8 * (rest / 2)) |
         (uint64_t)text[rest - 1] << (8 * (rest - 1));
}

/* The text's words, the last one with the length at its top: SipHash's own way to pad. */
static inline void idem__hash_text(idem__hasher *h, const void *text, size_t len) {
  const unsigned char *at = text;
  size_t whole = len & ~(size_t)7;
  for (size_t i = 0; i < whole; i += 8) idem__hash_word(h, idem__load8(at + i));
  idem__hash_word(h, (uint64_t)len << 56 | idem__load_rest(at, len));
}

uint64_t idem__hash(const void *bytes, size_t len, uint64_t seed);

#endif
