/* arena.c - the memory of one message.
 * A block lent by a pool serves the common case without malloc; what does not fit becomes a piece
 * of its own. yyjson grows its newest allocation only, so growing that one in place is enough. */
#include "json.h"

#include <string.h>

struct idem__arena_piece {
  idem__arena_piece *prev, *next;
  size_t size;
  size_t padding; /* keeps the memory behind the head aligned to 16 */
};

#define ALIGN_UP(n) (((n) + 15u) & ~(size_t)15u)

void idem__arena_init(idem__arena *arena, const idem_alloc *alloc, char *block, size_t cap,
                      size_t limit) {
  arena->alloc = alloc;
  arena->block = block;
  arena->cap = cap;
  arena->used = 0;
  arena->last = 0;
  arena->pieces = NULL;
  arena->piece_bytes = 0;
  arena->limit = limit;
  arena->over_limit = false;
}

void idem__arena_deinit(idem__arena *arena) {
  while (arena->pieces != NULL) {
    idem__arena_piece *piece = arena->pieces;
    arena->pieces = piece->next;
    idem__free(arena->alloc, piece);
  }
  arena->piece_bytes = 0;
  arena->used = 0;
}

static bool within_limit(idem__arena *arena, size_t extra) {
  size_t taken = arena->used + arena->piece_bytes;
  if (extra <= arena->limit && taken <= arena->limit - extra) return true;
  arena->over_limit = true;
  return false;
}

static void link_piece(idem__arena *arena, idem__arena_piece *piece) {
  piece->prev = NULL;
  piece->next = arena->pieces;
  if (piece->next) piece->next->prev = piece;
  arena->pieces = piece;
}

static void unlink_piece(idem__arena *arena, idem__arena_piece *piece) {
  if (piece->prev)
    piece->prev->next = piece->next;
  else
    arena->pieces = piece->next;
  if (piece->next) piece->next->prev = piece->prev;
}

IDEM__COLD static void *new_piece(idem__arena *arena, size_t size) {
  if (size > SIZE_MAX - sizeof(idem__arena_piece)) return NULL;
  idem__arena_piece *piece = idem__malloc(arena->alloc, sizeof *piece + size);
  if (!piece) return NULL;
  piece->size = size;
  arena->piece_bytes += size;
  link_piece(arena, piece);
  return piece + 1;
}

/* A block that is within the limit needs no look at it while there are no pieces: this is asked for first. */
static IDEM__INLINE bool within_block(const idem__arena *arena, size_t start, size_t size) {
  return start <= arena->cap && size <= arena->cap - start;
}

IDEM__HOT void *idem__arena_malloc(idem__arena *arena, size_t size) {
  size_t start = ALIGN_UP(arena->used);
  bool fits = within_block(arena, start, size);
  if (IDEM__UNLIKELY(!fits || arena->pieces || arena->cap > arena->limit)) {
    if (!within_limit(arena, size)) return NULL;
    if (!fits) return new_piece(arena, size);
  }
  arena->last = start;
  arena->used = start + size;
  return arena->block + start;
}

static bool in_block(const idem__arena *arena, const void *ptr) {
  uintptr_t at = (uintptr_t)ptr, begin = (uintptr_t)arena->block;
  return arena->block && at >= begin && at < begin + arena->cap;
}

IDEM__COLD static void *grow_piece(idem__arena *arena, void *ptr, size_t size) {
  idem__arena_piece *piece = (idem__arena_piece *)ptr - 1;
  size_t old_size = piece->size;
  if (size > SIZE_MAX - sizeof *piece) return NULL;
  unlink_piece(arena, piece);
  idem__arena_piece *grown =
      idem__realloc(arena->alloc, piece, sizeof *piece + old_size, sizeof *piece + size);
  link_piece(arena, grown ? grown : piece);
  if (!grown) return NULL;
  grown->size = size;
  arena->piece_bytes += size - old_size;
  return grown + 1;
}

static void *arena_realloc(idem__arena *arena, void *ptr, size_t old_size, size_t size) {
  if (size > old_size && !within_limit(arena, size - old_size)) return NULL;
  if (!in_block(arena, ptr)) return grow_piece(arena, ptr, size);
  size_t start = (size_t)((char *)ptr - arena->block);
  if (start == arena->last && size <= arena->cap - start) {
    arena->used = start + size;
    return ptr;
  }
  void *moved = idem__arena_malloc(arena, size);
  if (moved) memcpy(moved, ptr, old_size < size ? old_size : size);
  return moved;
}

static void arena_free(idem__arena *arena, void *ptr) {
  if (in_block(arena, ptr)) {
    if ((size_t)((char *)ptr - arena->block) == arena->last) arena->used = arena->last;
    return;
  }
  idem__arena_piece *piece = (idem__arena_piece *)ptr - 1;
  unlink_piece(arena, piece);
  arena->piece_bytes -= piece->size;
  idem__free(arena->alloc, piece);
}

IDEM__HOT static void *alc_malloc(void *ctx, size_t size) { return idem__arena_malloc(ctx, size); }
static void *alc_realloc(void *ctx, void *ptr, size_t old_size, size_t size) {
  return arena_realloc(ctx, ptr, old_size, size);
}
static void alc_free(void *ctx, void *ptr) {
  if (ptr) arena_free(ctx, ptr);
}

yyjson_alc idem__arena_alc(idem__arena *arena) {
  yyjson_alc alc = {alc_malloc, alc_realloc, alc_free, arena};
  return alc;
}
