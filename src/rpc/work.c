/* work.c - how much of the work in flight is whose.
 * A request counts from when its handler keeps it until the handler is done with it, whatever becomes
 * of its conn: for its session, for its client, and for all. Each has a bound, so that none takes all
 * there is, neither of handlers nor of the memory that arguments take. See docs/internals/rpc.md. */
#include "inside.h"

#include <string.h>

#define KEY_MAX 256u
#define GROWTH_FREE 4096u

struct idem__work {
  size_t requests, bytes;
  size_t key_len;
  char key[];
};

void idem__workload_init(idem__workload *workload, const idem_alloc *alloc, uint64_t seed,
                         size_t parse_bytes_total) {
  idem__lock_init(&workload->lock);
  idem_map_init(&workload->by_key, alloc, seed);
  atomic_init(&workload->requests, 0);
  atomic_init(&workload->max_requests, IDEM__IN_FLIGHT_TOTAL);
  atomic_init(&workload->max_client, IDEM__IN_FLIGHT_CLIENT);
  atomic_init(&workload->max_session, IDEM__IN_FLIGHT_SESSION);
  workload->max_client_bytes = parse_bytes_total / 4;
}

void idem__workload_deinit(idem__workload *workload) { idem_map_deinit(&workload->by_key); }

static void set(_Atomic size_t *limit, size_t value) {
  if (value) atomic_store_explicit(limit, value, memory_order_relaxed);
}

static size_t get(const _Atomic size_t *value) {
  return atomic_load_explicit(value, memory_order_relaxed);
}

static void set_no_more_than(_Atomic size_t *limit, size_t value, size_t most) {
  if (!value) value = get(limit);
  set(limit, value < most ? value : most);
}

/* None has more than all of them together: the smallest bound is a session's, see work_is_full. */
void idem__router_limit_work(idem_router *router, size_t total, size_t client, size_t session) {
  idem__workload *workload = &router->workload;
  set(&workload->max_requests, total);
  set_no_more_than(&workload->max_client, client, get(&workload->max_requests));
  set_no_more_than(&workload->max_session, session, get(&workload->max_client));
}

void idem__router_limit_work_bytes(idem_router *router, size_t client) {
  router->workload.max_client_bytes = client;
}

/* ------------------------------------------------------------------- whose */

typedef struct work_key {
  size_t len; /* 0: nobody's */
  char bytes[1 + KEY_MAX];
} work_key;

static void make_key(work_key *key, char kind, const void *name, size_t len) {
  if (len > KEY_MAX) len = KEY_MAX;
  key->len = name && len ? 1 + len : 0;
  key->bytes[0] = kind;
  if (key->len) memcpy(key->bytes + 1, name, len);
}

/* A name is a client wherever it comes from; without one the address is. */
static void find_keys(const idem_conn *conn, work_key *client, work_key *session) {
  idem__whose whose = {.client = NULL};
  const void *address = idem__conn_address(conn);
  if (conn->whose) conn->whose(conn, &whose);
  if (whose.client && *whose.client)
    make_key(client, 'n', whose.client, strlen(whose.client));
  else
    make_key(client, 'a', address, IDEM__CLIENT_BYTES);
  make_key(session, 's', whose.session, whose.session ? strlen(whose.session) : 0);
}

static idem__work *find(idem__workload *workload, const work_key *key) {
  return key->len ? idem_map_get(&workload->by_key, key->bytes, key->len) : NULL;
}

/* ---------------------------------------------------------------- counting */

/* With the lock held. */
static void leave(idem__workload *workload, idem__work *work, size_t bytes) {
  work->bytes -= bytes;
  if (--work->requests) return;
  idem_map_remove(&workload->by_key, work->key, work->key_len);
  idem__free(workload->by_key.alloc, work);
}

static idem__work *new_work(idem__workload *workload, const work_key *key) {
  idem__work *work = idem__malloc(workload->by_key.alloc, sizeof *work + key->len);
  if (!work) return NULL;
  *work = (idem__work){.key_len = key->len};
  memcpy(work->key, key->bytes, key->len);
  if (idem_map_put(&workload->by_key, work->key, work->key_len, work) == IDEM_OK) return work;
  idem__free(workload->by_key.alloc, work);
  return NULL;
}

/* With the lock held. */
static idem_status join(idem__workload *workload, const work_key *key, size_t limit,
                        size_t max_bytes, size_t bytes, idem__work **out) {
  idem__work *work = find(workload, key);
  if (!key->len) return IDEM_OK;
  if (work && (work->requests >= limit || work->bytes + bytes > max_bytes)) return IDEM_E_LIMIT;
  if (!work) work = new_work(workload, key);
  if (!work) return IDEM_E_NOMEM;
  work->requests++;
  work->bytes += bytes;
  *out = work;
  return IDEM_OK;
}

static idem_status join_both(idem__workload *workload, idem_request *request) {
  work_key client, session;
  size_t bytes = request->work_bytes;
  find_keys(request->conn, &client, &session);
  idem__lock_take(&workload->lock);
  idem_status status = join(workload, &client, get(&workload->max_client),
                            workload->max_client_bytes, bytes, &request->works[0]);
  if (status == IDEM_OK) {
    status =
        join(workload, &session, get(&workload->max_session), SIZE_MAX, bytes, &request->works[1]);
    if (status != IDEM_OK && request->works[0]) leave(workload, request->works[0], bytes);
  }
  idem__lock_give(&workload->lock);
  return status;
}

/* A first message larger than a client's part is let in: some message has to be the first. */
idem_status idem__work_begin(idem_request *request) {
  const idem_router *router = request->block->router;
  if (request->counted || !router) return IDEM_OK;
  idem__workload *workload = &((idem_router *)(uintptr_t)router)->workload;
  size_t before = atomic_fetch_add_explicit(&workload->requests, 1, memory_order_relaxed);
  bool first = !request->batch || request->batch_index == 0; /* the others work its memory */
  request->works[0] = request->works[1] = NULL;
  request->work_bytes = first ? request->block->charged_bytes : 0;
  idem_status status =
      before < get(&workload->max_requests) ? join_both(workload, request) : IDEM_E_LIMIT;
  if (status != IDEM_OK) atomic_fetch_sub_explicit(&workload->requests, 1, memory_order_relaxed);
  request->counted = status == IDEM_OK;
  return status;
}

/* The only request of a client may grow as large as one can come. A little is counted, and never refused:
 * the request would fail for the want of what its end gives back. */
static bool grow_share(idem__workload *workload, idem_request *request, size_t bytes) {
  if (!request->counted) return true;
  idem__lock_take(&workload->lock);
  const idem__work *client = request->works[0];
  bool fits = bytes <= GROWTH_FREE || !client || client->requests == 1 ||
              client->bytes + bytes <= workload->max_client_bytes;
  for (size_t i = 0; i < 2 && fits; i++)
    if (request->works[i]) request->works[i]->bytes += bytes;
  idem__lock_give(&workload->lock);
  if (fits) request->work_bytes += bytes;
  return fits;
}

bool idem__work_grow(idem_request *request, size_t more) {
  idem__block *block = request->block;
  idem_router *router = (idem_router *)(uintptr_t)block->router;
  size_t bytes = block->arena.cap + block->arena.piece_bytes + more;
  if (!router || bytes <= block->charged_bytes) return true;
  more = bytes - block->charged_bytes;
  size_t used = atomic_fetch_add_explicit(&router->parse_bytes_used, more, memory_order_relaxed);
  if (used + more <= router->parse_bytes_total && grow_share(&router->workload, request, more)) {
    block->charged_bytes = bytes;
    return true;
  }
  atomic_fetch_sub_explicit(&router->parse_bytes_used, more, memory_order_relaxed);
  return false;
}

IDEM__APART void idem__work_end(idem_request *request) {
  idem__workload *workload = &((idem_router *)(uintptr_t)request->block->router)->workload;
  idem__lock_take(&workload->lock);
  for (size_t i = 0; i < 2; i++)
    if (request->works[i]) leave(workload, request->works[i], request->work_bytes);
  idem__lock_give(&workload->lock);
  atomic_fetch_sub_explicit(&workload->requests, 1, memory_order_relaxed);
  request->counted = false;
}

bool idem__work_full(const idem_conn *conn) {
  idem__workload *workload = &((idem_router *)(uintptr_t)conn->opts.router)->workload;
  if (get(&workload->requests) >= get(&workload->max_requests)) return true;
  work_key client, session;
  find_keys(conn, &client, &session);
  idem__lock_take(&workload->lock);
  const idem__work *of_client = find(workload, &client), *of_session = find(workload, &session);
  bool full = (of_client && of_client->requests >= get(&workload->max_client)) ||
              (of_session && of_session->requests >= get(&workload->max_session));
  idem__lock_give(&workload->lock);
  return full;
}

size_t idem__router_work(const idem_router *router) { return get(&router->workload.requests); }
