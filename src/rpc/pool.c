/* pool.c - memory that the conns of one thread reuse: message blocks, output chunks, requests.
 * Small things are kept in short lists; one large block and one large chunk are kept while large
 * messages keep coming. Everything out of the pool holds a reference, so the pool may be freed
 * first. */
#include "inside.h"

#define SMALL_BLOCK 8192u
#define SLAB_BYTES (sizeof(idem__block) + SMALL_BLOCK)
#define SLAB_ROOM_MIN (sizeof(idem__block) + 1024u) /* less is not worth another message */
#define SLABS_KEPT 16u
#define SMALL_CHUNK 65536u
#define CHUNK_START 1024u
#define CHUNKS_KEPT 8u
#define LARGE_KEPT ((size_t)16 << 20)
#define LARGE_CREDIT 32u
#define REQUESTS_QUARANTINED 32u
#define REQUESTS_KEPT 256u

IDEM__EARLY idem_status idem_pool_new(const idem_alloc *alloc, idem_pool **out) {
  idem_alloc resolved = idem__alloc_or_default(alloc);
  idem_pool *pool = idem__calloc(&resolved, sizeof *pool);
  if (!pool) return IDEM_E_NOMEM;
  pool->alloc = resolved;
  pool->refs = 1;
  idem_list_init(&pool->ended);
  idem_list_init(&pool->late);
  *out = pool;
  return IDEM_OK;
}

bool idem__pool_has_late(const idem_pool *pool) { return !idem_list_empty(&pool->late); }

IDEM__COLD static void free_block(idem__block *block) {
  if (block) idem__free(&block->pool->alloc, block);
}

IDEM__COLD static void free_chunk(idem__chunk *chunk) {
  if (!chunk) return;
  idem_buf_deinit(&chunk->buf);
  idem__free(&chunk->pool->alloc, chunk);
}

IDEM__COLD static void free_large(idem_pool *pool) {
  free_block(pool->large_block);
  pool->large_block = NULL;
  free_chunk(pool->large_chunk);
  pool->large_chunk = NULL;
  pool->parse_ratio = 0;
}

static void unlist(idem_pool *pool) {
  idem__slab *slab = pool->slabs;
  pool->slabs = slab->next;
  pool->slab_count--;
  slab->listed = false;
}

/* Those that hold kept blocks are freed with the last of these. */
static void free_slabs(idem_pool *pool) {
  idem__free(&pool->alloc, pool->spare);
  pool->spare = NULL;
  while (pool->slabs) {
    idem__slab *slab = pool->slabs;
    unlist(pool);
    if (!slab->blocks) idem__free(&pool->alloc, slab);
  }
}

static void free_chunks(idem_pool *pool) {
  idem_list *link;
  while ((link = idem__spare_pop(&pool->chunks)))
    free_chunk(IDEM_CONTAINER(link, idem__chunk, link));
  pool->chunk_count = 0;
}

static void free_fresh(idem_pool *pool) {
  idem_list *link;
  while ((link = idem__spare_pop(&pool->fresh))) {
    idem__free(&pool->alloc, IDEM_CONTAINER(link, idem_request, link));
  }
}

static void free_ended(idem_pool *pool) {
  while (!idem_list_empty(&pool->ended)) {
    idem_request *request = IDEM_CONTAINER(pool->ended.next, idem_request, link);
    idem_list_remove(&request->link);
    idem__free(&pool->alloc, request);
  }
}

IDEM__COLD void idem_pool_trim(idem_pool *pool) {
  free_large(pool);
  free_slabs(pool);
  free_chunks(pool);
  free_fresh(pool);
}

IDEM__COLD void idem_pool_trace(idem_pool *pool, idem_trace_fn fn, void *user) {
  pool->trace = fn;
  pool->trace_user = user;
}

IDEM__COLD void idem__conn_trace(idem_conn *conn, idem_direction direction, const char *text,
                                 size_t len) {
  const idem_pool *pool = conn->pool;
  if (conn->opts.on_trace) conn->opts.on_trace(conn, direction, text, len, conn->opts.user);
  if (!pool->trace) return;
  pool->trace(&(idem_traced){.direction = direction,
                             .text = text,
                             .len = len,
                             .conn = conn->number,
                             .peer = idem_conn_peer(conn),
                             .serves = conn->opts.router != NULL},
              pool->trace_user);
}

void idem__pool_ref(idem_pool *pool) { pool->refs++; }

void idem__pool_unref(idem_pool *pool) {
  if (IDEM__LIKELY(--pool->refs)) return;
  idem_pool_trim(pool);
  free_ended(pool);
  idem_alloc alloc = pool->alloc;
  idem__free(&alloc, pool);
}

void idem_pool_free(idem_pool *pool) {
  if (pool) idem__pool_unref(pool);
}

/* After enough small messages in a row the memory for large ones goes back. */
static void age_large(idem_pool *pool) {
  if (IDEM__UNLIKELY(pool->large_credit) && --pool->large_credit == 0) free_large(pool);
}

/* ------------------------------------------------------------------ blocks */

/* yyjson's first guess suits text; messages of many small values take more, and those that come
 * one after the other are alike. So that they do not overflow their blocks each time, what the last
 * ones took is remembered; never so that a block becomes larger than one that is kept. */
static size_t need_for(const idem_pool *pool, size_t text_len) {
  size_t estimate = idem__json_read_estimate(text_len);
  if (IDEM__LIKELY(!pool->parse_ratio) || text_len > LARGE_KEPT) return estimate;
  size_t learnt = text_len * pool->parse_ratio / 16;
  return learnt > estimate && learnt <= LARGE_KEPT / 9 * 8 ? learnt : estimate;
}

IDEM__APART static void learn_need(idem_pool *pool, const idem__block *block) {
  size_t need = block->arena.used + block->arena.piece_bytes;
  size_t took = need / (block->text_len / 16 + 1) + 1, before = pool->parse_ratio;
  pool->parse_ratio = took > before ? took : before - before / 8;
}

/* yyjson takes room for more values than most messages have; what they do not use is left to what
 * comes next. The document's head and its values are one allocation, the last one. */
static void fit(idem__block *block) {
  const yyjson_doc *doc = block->doc;
  idem__arena *arena = &block->arena;
  if (IDEM__UNLIKELY(!doc || (const char *)doc != arena->block + arena->last)) return;
  arena->used = (size_t)((const char *)(doc->root + doc->val_read) - arena->block);
}

void idem__block_parsed(idem__block *block) {
  if (IDEM__LIKELY(block->arena.cap <= SMALL_BLOCK && !block->arena.pieces))
    fit(block);
  else if (block->arena.cap >= SMALL_BLOCK) /* else others had taken their part of it before */
    learn_need(block->pool, block);
}

static size_t block_size_for(size_t need, size_t limit) {
  if (IDEM__LIKELY(need <= SMALL_BLOCK) || limit <= SMALL_BLOCK) return SMALL_BLOCK;
  need += need / 8;
  return need < limit ? need : limit;
}

IDEM__COLD static idem__slab *make_slab(idem_pool *pool) {
  idem__slab *slab = idem__malloc(&pool->alloc, sizeof *slab + SLAB_BYTES);
  if (!slab) return NULL;
  slab->open = NULL;
  slab->used = 0;
  slab->blocks = 0;
  slab->listed = false;
  return slab;
}

/* A slab with too little left stays with those who have a part of it. */
static idem__slab *take_slab(idem_pool *pool, size_t room) {
  while (pool->slabs) {
    idem__slab *slab = pool->slabs;
    unlist(pool);
    if (IDEM__LIKELY(SLAB_BYTES - slab->used >= room)) return slab;
  }
  return make_slab(pool);
}

/* One of its blocks has been cut, or is gone. */
static void look_at_slab(idem_pool *pool, idem__slab *slab) {
  if (IDEM__LIKELY(slab->blocks == 0)) slab->used = 0;
  if (IDEM__UNLIKELY(slab->listed || slab->open)) return;
  if (IDEM__LIKELY(SLAB_BYTES - slab->used >= SLAB_ROOM_MIN && pool->slab_count < SLABS_KEPT)) {
    slab->next = pool->slabs;
    slab->listed = true;
    pool->slabs = slab;
    pool->slab_count++;
  } else if (slab->blocks == 0) {
    idem__free(&pool->alloc, slab);
  }
}

IDEM__APART static idem__block *open_block(idem_pool *pool, size_t need) {
  if (need > SMALL_BLOCK) need = SMALL_BLOCK;
  idem__slab *slab = take_slab(pool, sizeof(idem__block) + need);
  if (IDEM__UNLIKELY(!slab)) return NULL;
  idem__block *block = (idem__block *)(void *)(slab->data + slab->used);
  slab->blocks++;
  slab->open = block;
  block->pool = pool;
  block->slab = slab;
  block->arena.cap = SMALL_BLOCK - slab->used;
  return block;
}

static IDEM__INLINE idem__block *small_block(idem_pool *pool, size_t need) {
  idem__slab *spare = pool->spare;
  age_large(pool);
  if (IDEM__UNLIKELY(!spare)) return open_block(pool, need);
  pool->spare = NULL;
  return spare->open;
}

IDEM__APART static void leave_slab(idem_pool *pool, idem__block *block) {
  idem__slab *slab = block->slab;
  slab->blocks--;
  if (slab->open == block) slab->open = NULL;
  look_at_slab(pool, slab);
}

IDEM__APART static idem__block *large_block(idem_pool *pool, size_t size) {
  idem__block *block = pool->large_block;
  pool->large_credit = LARGE_CREDIT;
  if (block && block->arena.cap >= size) {
    pool->large_block = NULL;
    return block;
  }
  block = idem__malloc(&pool->alloc, sizeof *block + size);
  if (!block) return NULL;
  block->pool = pool;
  block->slab = NULL;
  block->arena.cap = size;
  return block;
}

IDEM__HOT idem__block *idem__block_new(idem_pool *pool, const idem_router *router, size_t text_len,
                                       size_t limit, bool *over) {
  *over = false;
  size_t need = need_for(pool, text_len), size = block_size_for(need, limit);
  idem__block *block =
      IDEM__LIKELY(size == SMALL_BLOCK) ? small_block(pool, need) : large_block(pool, size);
  if (IDEM__UNLIKELY(!block)) return NULL;
  block->refs = 1;
  block->held = 0;
  block->text_kept = 0;
  block->text_len = text_len;
  block->router = router;
  block->charged_bytes = 0;
  block->doc = NULL;
  block->note = NULL;
  idem__arena_init(&block->arena, &pool->alloc, block->data, block->arena.cap, limit);
  idem__pool_ref(pool);
  if (IDEM__UNLIKELY(size > SMALL_BLOCK) && !idem__block_charge(block)) {
    *over = true;
    idem__block_release(block);
    return NULL;
  }
  return block;
}

bool idem__block_charge(idem__block *block) {
  idem_router *router = (idem_router *)(uintptr_t)block->router;
  size_t bytes = block->arena.cap + block->arena.piece_bytes;
  if (!router || bytes <= block->charged_bytes) return true;
  size_t more = bytes - block->charged_bytes;
  size_t used = atomic_fetch_add_explicit(&router->parse_bytes_used, more, memory_order_relaxed);
  block->charged_bytes = bytes;
  return used + more <= router->parse_bytes_total;
}

static void uncharge(idem__block *block) {
  idem_router *router = (idem_router *)(uintptr_t)block->router;
  if (IDEM__LIKELY(!block->charged_bytes)) return;
  atomic_fetch_sub_explicit(&router->parse_bytes_used, block->charged_bytes, memory_order_relaxed);
  block->charged_bytes = 0;
}

static void keep_or_free_large(idem_pool *pool, idem__block *block) {
  if (block->arena.cap <= LARGE_KEPT &&
      (!pool->large_block || pool->large_block->arena.cap < block->arena.cap)) {
    free_block(pool->large_block);
    pool->large_block = block;
  } else {
    free_block(block);
  }
}

/* What waits in conn->held is counted by its size, which must not change under it. */
bool idem__block_keep_text(idem__block *block) {
  if (block->text_kept) return true;
  char *copy = idem__arena_malloc(&block->arena, block->text_len);
  if (!copy) return false;
  memcpy(copy, block->text, block->text_len);
  block->text = copy;
  block->text_kept = 1;
  return true;
}

void idem__block_keep(idem__block *block, const char *text) {
  if (block->text == text) block->text = NULL; /* else a copy was kept: see park.c and turn.c */
  idem__slab *slab = block->slab;
  if (!slab || block->held) return;
  size_t used = (block->arena.used + 15u) & ~(size_t)15u;
  size_t spare = block->arena.cap - used;
  block->arena.cap = used;
  if (block->charged_bytes) { /* with all that it had */
    idem_router *router = (idem_router *)(uintptr_t)block->router;
    atomic_fetch_sub_explicit(&router->parse_bytes_used, spare, memory_order_relaxed);
    block->charged_bytes -= spare;
  }
  slab->open = NULL;
  slab->used += sizeof *block + used;
  look_at_slab(block->pool, slab);
}

IDEM__HOT void idem__block_release(idem__block *block) {
  if (--block->refs) return;
  idem_pool *pool = block->pool;
  idem__slab *slab = block->slab;
  uncharge(block);
  idem__arena_deinit(&block->arena);
  if (IDEM__UNLIKELY(!slab))
    keep_or_free_large(pool, block);
  else if (IDEM__UNLIKELY(slab->used || pool->spare))
    leave_slab(pool, block);
  else
    pool->spare = slab; /* nothing else is in it */
  idem__pool_unref(pool);
}

/* ------------------------------------------------------------------ chunks */

IDEM__COLD static idem__chunk *make_chunk(idem_pool *pool) {
  idem__chunk *chunk = idem__calloc(&pool->alloc, sizeof *chunk);
  if (!chunk) return NULL;
  chunk->pool = pool;
  idem_buf_init(&chunk->buf, &pool->alloc, CHUNK_START); /* its conn sets the maximum */
  if (idem_buf_reserve(&chunk->buf, CHUNK_START) != IDEM_OK) {
    idem__free(&pool->alloc, chunk);
    return NULL;
  }
  return chunk;
}

IDEM__HOT idem__chunk *idem__chunk_new(idem_pool *pool) {
  idem__chunk *chunk;
  idem_list *spare;
  if (IDEM__UNLIKELY(pool->large_chunk != NULL)) {
    chunk = pool->large_chunk;
    pool->large_chunk = NULL;
  } else if ((spare = idem__spare_pop(&pool->chunks))) {
    chunk = IDEM_CONTAINER(spare, idem__chunk, link);
    pool->chunk_count--;
  } else {
    chunk = make_chunk(pool);
    if (!chunk) return NULL;
  }
  chunk->buf.len = 0;
  chunk->counted = 0;
  chunk->own = 0;
  idem_list_init(&chunk->link);
  idem__pool_ref(pool);
  return chunk;
}

IDEM__HOT void idem__chunk_release(idem__chunk *chunk) {
  idem_pool *pool = chunk->pool;
  chunk->conn = NULL;
  if (IDEM__LIKELY(chunk->buf.cap <= SMALL_CHUNK && pool->chunk_count < CHUNKS_KEPT)) {
    idem__spare_push(&pool->chunks, &chunk->link);
    pool->chunk_count++;
  } else if (chunk->buf.cap > SMALL_CHUNK && chunk->buf.cap <= LARGE_KEPT && !pool->large_chunk) {
    pool->large_chunk = chunk;
    pool->large_credit = LARGE_CREDIT;
  } else {
    free_chunk(chunk);
  }
  idem__pool_unref(pool);
}

/* ---------------------------------------------------------------- requests */

static idem_request *spare_request(idem_pool *pool) {
  idem_list *link = idem__spare_pop(&pool->fresh);
  if (IDEM__UNLIKELY(!link)) {
    if (pool->ended_count < REQUESTS_QUARANTINED) return NULL;
    link = pool->ended.next;
    idem_list_remove(link);
    pool->ended_count--;
  }
  return IDEM_CONTAINER(link, idem_request, link);
}

/* Sets what must have a value; ids, names and keys are written before they are read. Clearing the
 * whole struct instead would cost a tenth of a small message. */
static void init_request(idem_request *request, idem_pool *pool) {
  idem_list_init(&request->link);
  request->pool = pool;
  request->conn = NULL;
  request->block = NULL;
  request->batch = NULL;
  request->refusal = NULL;
  request->doc = NULL;
  request->on_cancel = NULL;
  request->owed.key = NULL;
  request->timer.index = 0;
  request->attachment_free = NULL;
  request->attachment_keep = NULL;
  request->counted = false;
  request->late_answer = NULL;
  request->guard = NULL;
  request->cut_off = NULL;
  request->attachment = NULL;
  request->id_kept = false;
  request->live = true;
  request->kept = false;
  request->in_handler = false;
  request->held = false;
  request->running = false;
  request->parked = false;
  request->settled = false;
  request->ended = false;
  request->cancelled = false;
  request->aborted = false;
  request->told = false;
  request->measured = false;
}

IDEM__HOT idem_request *idem__request_new(idem_pool *pool) {
  idem_request *request = spare_request(pool);
  if (IDEM__UNLIKELY(!request)) request = idem__malloc(&pool->alloc, sizeof *request);
  if (IDEM__UNLIKELY(!request)) return NULL;
  init_request(request, pool);
  idem__pool_ref(pool);
  return request;
}

/* There were very many at once: not all of them are needed again. */
IDEM__APART static void free_oldest(idem_pool *pool) {
  idem_request *oldest = IDEM_CONTAINER(pool->ended.next, idem_request, link);
  idem_list_remove(&oldest->link);
  pool->ended_count--;
  idem__free(&pool->alloc, oldest);
}

IDEM__HOT void idem__request_release(idem_request *request) {
  idem_pool *pool = request->pool;
  request->live = false;
  request->conn = NULL;
  if (IDEM__UNLIKELY(request->attachment_free != NULL))
    request->attachment_free(request->attachment);
  if (IDEM__UNLIKELY(request->counted)) idem__work_end(request);
  if (IDEM__LIKELY(request->block != NULL)) idem__block_release(request->block);
  request->block = NULL;
  idem_list_leave(&request->link);
  if (IDEM__UNLIKELY(request->kept)) {
    idem_list_append(&pool->ended, &request->link);
    if (++pool->ended_count > REQUESTS_KEPT) free_oldest(pool);
  } else {
    idem__spare_push(&pool->fresh, &request->link);
  }
  idem__pool_unref(pool);
}
