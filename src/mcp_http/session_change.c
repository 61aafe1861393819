/* session_change.c - what changes in a session: opening it, and what its client sets later. A change is made in
 * the image and written with the version it was made from; where another process was faster the record is
 * read again and the change made once more. Of one session a process has one change on its way to a store that answers later: the others
 * wait in line, on whichever thread, and the next that goes takes all along who wait. The store answers now or later. */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

/* Each time another process has made its changes, all that waited there: who is overtaken for so long has none of the luck. */
#define CHANGE_TRIES 512
#define CHANGES_WAITING 1024 /* of one session, on all threads */
#define CHANGES_TOGETHER 64
#define NO_ROOM_TOLD_MS 10000u
#define EVICTED 4     /* for one that comes, at most: a store may be full of something else */
#define ID_TRIES 4096 /* for an id that lives beside another: a store has 64 places at most */

/* ------------------------------------------------------------------ changing */

typedef struct changing {
  idem_list link; /* in the session; this and the next three are guarded by the table's lock */
  idem__store_pending *turn; /* the word that it waits for; NULL: it has come, or is about to */
  bool in_line;
  bool taken;   /* along, by the first */
  bool settled; /* so it was made, or will not be, as the status says */
  idem_alloc alloc;
  idem__http_session *session; /* counted */
  idem__store_queue *queue;
  idem__session_change change; /* its text follows */
  idem__session_done done;
  void *user;
  unsigned tries;
  bool no_room;       /* in the store, which says nothing of what a session may have */
  idem_status status; /* why the record is read; what came of one that was taken along */
  idem__session_finding reading;
} changing;

static void try_change(changing *one);
static void end_change(changing *one, idem_status status);

static bool is_overtaken(idem_status status) {
  return status == IDEM_E_STATE || status == IDEM_E_EXISTS;
}

static changing *first_of(const idem__http_session *session) {
  if (idem_list_empty(&session->changes)) return NULL;
  return IDEM_CONTAINER(session->changes.next, changing, link);
}

/* Its turn has come; or somebody took it along, or the store is away, or nobody waits any more. */
static void on_turn(const idem__store_answer *word, void *user) {
  changing *one = user;
  idem__session_table *table = one->session->table;
  idem__session_table_lock(table);
  idem__store_pending *untold = one->turn;
  bool settled = one->settled;
  one->turn = NULL;
  idem__session_table_unlock(table);
  if (untold) idem__store_queue_tell(untold, IDEM_E_CLOSED);
  if (settled)
    end_change(one, one->status);
  else if (word->status == IDEM_OK)
    try_change(one);
  else
    end_change(one, word->status);
}

/* Gets in line; false: there is no room. Where the store answers at once nobody waits. */
static bool enter_line(changing *one, bool *first) {
  idem__http_session *session = one->session;
  *first = true;
  if (!one->queue || session->table->store->kind->immediate) return true;
  idem__session_table_lock(session->table);
  *first = idem_list_empty(&session->changes);
  bool room = *first || session->changing < CHANGES_WAITING;
  if (room && !*first) one->turn = idem__store_queue_await(one->queue, on_turn, one);
  bool stands = one->in_line = *first || one->turn;
  if (stands) idem_list_append(&session->changes, &one->link);
  if (stands) session->changing++;
  idem__session_table_unlock(session->table); /* somebody may take it along from now on */
  return stands;
}

/* With the lock held. */
static void step_out(changing *one) {
  idem_list_remove(&one->link);
  one->in_line = false;
  one->session->changing--;
}

/* Whom to tell that it is its turn; NULL: nobody, or it was not ours. */
static idem__store_pending *leave_line(changing *one) {
  idem__http_session *session = one->session;
  idem__store_pending *turn = NULL;
  idem__session_table_lock(session->table);
  bool was_first = one->in_line && first_of(session) == one;
  if (one->in_line) step_out(one);
  changing *next = was_first ? first_of(session) : NULL;
  if (next) turn = next->turn;
  if (next) next->turn = NULL;
  idem__session_table_unlock(session->table);
  return turn;
}

/* A session that ended meanwhile needs no change any more; one that was always overtaken may be tried again. Where the store does not
 * answer, those behind do not wait for it one after the other. */
static void end_change(changing *one, idem_status status) {
  idem_alloc alloc = one->alloc;
  idem__session_done done = one->done;
  void *user = one->user;
  bool away = idem__is_unknown(status) && status != IDEM_E_CLOSED; /* that is a thread's own end */
  idem__store_pending *turn = leave_line(one);
  idem__http_session_unref(one->session);
  idem__free(&alloc, one);
  if (is_overtaken(status)) status = IDEM_E_SYS;
  if (done) done(status == IDEM_E_NOTFOUND ? IDEM_OK : status, user);
  if (turn) idem__store_queue_tell(turn, away ? status : IDEM_OK);
}

/* The image is what the record says again. */
static void on_reloaded(idem__http_session *same, idem_status status, void *user) {
  changing *one = user;
  bool no_room = one->no_room || (!same && status == IDEM_E_LIMIT); /* of the store's */
  if (same) idem__http_session_unref(same);
  if (same && is_overtaken(one->status) && ++one->tries < CHANGE_TRIES)
    try_change(one);
  else
    end_change(one, no_room ? IDEM_E_SYS : same ? one->status : status);
}

/* It was not written, or nobody knows: the image is not to be believed. */
static void give_back(changing *one, idem_status status) {
  idem__http_session *session = one->session;
  idem__session_table_lock(session->table);
  session->version = 0;
  idem__session_table_unlock(session->table);
  one->status = status;
  if (idem__is_unknown(status))
    end_change(one, status);
  else
    idem__http_session_load(&one->reading);
}

/* With the lock held: the record is written with those that were taken along. Gives whom to tell, and how many they are. */
static size_t settle_taken(changing *one, idem_status status,
                           idem__store_pending *turns[CHANGES_TOGETHER]) {
  size_t count = 0;
  if (!one->in_line) return 0;
  for (idem_list *at = one->link.next, *next; at != &one->session->changes; at = next) {
    changing *each = IDEM_CONTAINER(at, changing, link);
    next = at->next;
    if (!each->taken) break;
    each->settled = true;
    each->status = status;
    if (each->turn) turns[count++] = each->turn; /* else its own thread is about to end it */
    each->turn = NULL;
    step_out(each);
  }
  return count;
}

static void end_all(changing *one, idem_status status) {
  idem__session_table *table = one->session->table;
  idem__store_pending *turns[CHANGES_TOGETHER];
  idem__session_table_lock(table);
  size_t count = settle_taken(one, status, turns);
  idem__session_table_unlock(table);
  for (size_t i = 0; i < count; i++) idem__store_queue_tell(turns[i], IDEM_OK);
  end_change(one, status);
}

static void on_put(const idem__store_answer *answer, void *user) {
  changing *one = user;
  idem__http_session *session = one->session;
  idem__session_table_lock(session->table);
  session->busy--;
  one->no_room = answer->status == IDEM_E_LIMIT;
  if (answer->status == IDEM_OK && answer->version > session->version)
    session->version = answer->version;
  idem__session_table_unlock(session->table);
  if (answer->status == IDEM_OK || answer->status == IDEM_E_NOTFOUND)
    end_all(one, answer->status);
  else
    give_back(one, answer->status);
}

/* With the lock held: makes the change, and those of who wait behind it as far as they can be made. A record takes one at a
 * time, and who has to read it first would be overtaken by each of a long line. */
static idem_status apply_all(changing *one) {
  idem__mcp_session *legacy = &one->session->legacy;
  size_t max = one->session->table->opts.server->opts.max_subscriptions, taken = 0;
  idem_status status = idem__session_apply(legacy, &one->change, max);
  if (!one->in_line) return status;
  bool more = status == IDEM_OK;
  for (idem_list *at = one->link.next; at != &one->session->changes; at = at->next) {
    changing *each = IDEM_CONTAINER(at, changing, link);
    more = more && taken++ < CHANGES_TOGETHER &&
           idem__session_apply(legacy, &each->change, max) == IDEM_OK;
    each->taken = more;
  }
  return status;
}

/* Applies the change and writes the record anew. */
static void try_change(changing *one) {
  idem__http_session *session = one->session;
  idem__session_table *table = session->table;
  idem_buf text;
  idem__store_op op = idem__http_session_op(session, IDEM__STORE_PUT);
  idem_buf_init(&text, &table->alloc, IDEM__RECORD_BYTES);
  idem__session_table_lock(table);
  idem_status status = apply_all(one);
  if (status == IDEM_OK) status = idem__record_write(session, &text);
  op.expect = session->version;
  if (status == IDEM_OK) session->busy++;
  idem__session_table_unlock(table);
  op.bytes = text.data;
  op.len = text.len;
  /* Whoever changes it is using it. */
  op.ttl_ms = table->opts.session_idle_ms + IDEM__SESSION_BUSY_MS;
  op.done = on_put;
  op.user = one;
  if (status == IDEM_OK)
    idem__store_submit(table->store, one->queue, &op, NULL);
  else
    give_back(one, status);
  idem_buf_deinit(&text);
}

void idem__http_session_change(idem__http_session *session, idem__store_queue *queue,
                               const idem__session_change *change, idem__session_done done,
                               void *user) {
  idem__session_table *table = session->table;
  changing *one = idem__calloc(&table->alloc, sizeof *one + change->uri_len);
  if (!one) {
    if (done) done(IDEM_E_NOMEM, user);
    return;
  }
  *one = (changing){.alloc = table->alloc,
                    .session = session,
                    .queue = queue,
                    .change = *change,
                    .done = done,
                    .user = user,
                    .reading = {.table = table, .queue = queue, .found = on_reloaded, .user = one}};
  if (change->uri_len) memcpy(one + 1, change->uri, change->uri_len);
  one->change.uri = (const char *)(one + 1);
  memcpy(one->reading.id, session->id, IDEM__SESSION_ID);
  idem__http_session_ref(session);
  bool first;
  if (!enter_line(one, &first))
    end_change(one, IDEM_E_SYS);
  else if (first)
    try_change(one);
}

/* ------------------------------------------------------------------- opening */

void idem__session_table_make_id(const idem__session_table *table, char id[IDEM__SESSION_ID + 1]) {
  uint8_t bytes[IDEM__SESSION_ID / 2];
  idem__server_random(table->opts.server, bytes, sizeof bytes);
  idem__text_hex(id, bytes, sizeof bytes);
}

struct idem__session_opening {
  idem__http_session *session; /* not in the table yet */
  idem__store_queue *queue;
  idem__session_opening **handle;
  idem__session_opened done; /* NULL: nobody wants it any more */
  void *user;
  unsigned evicted;
  idem__session_removing evicting;
};

static void put_record(idem__session_opening *opening);

static void end_opening(idem__session_opening *opening, idem__http_session *session,
                        idem_status status) {
  idem_alloc alloc = opening->session->table->alloc;
  idem__session_opened done = opening->done;
  void *user = opening->user;
  if (opening->handle) *opening->handle = NULL;
  if (!session) idem__http_session_destroy(opening->session);
  idem__free(&alloc, opening);
  if (done) done(session, status, user);
}

/* The record is there, and so shall be the image. */
static void enter(idem__session_opening *opening) {
  idem__http_session *session = opening->session;
  idem__session_table *table = session->table;
  idem__session_table_lock(table);
  bool taken = opening->done && idem__session_table_take_in(table, session) == session;
  if (taken) idem__http_session_hold(session); /* the caller's */
  idem__session_table_unlock(table);
  if (!taken) idem__http_session_end(session);
  end_opening(opening, taken ? session : NULL, taken ? IDEM_OK : IDEM_E_NOMEM);
}

/* A store may keep sessions in several places, each with a share of the bound: it gets an id, which nobody knows yet, where room
 * was made. */
static void move_to(idem__http_session *session, const idem__http_session *beside) {
  const idem__store *store = session->table->store;
  unsigned part = idem__store_part(store, IDEM__STORE_SESSIONS, beside->id, IDEM__SESSION_ID);
  for (int tries = 0; tries < ID_TRIES; tries++) {
    if (idem__store_part(store, IDEM__STORE_SESSIONS, session->id, IDEM__SESSION_ID) == part)
      return;
    idem__session_table_make_id(session->table, session->id);
  }
}

static void on_evicted(idem_status status, void *user) {
  idem__session_opening *opening = user;
  move_to(opening->session, opening->evicting.session);
  idem__http_session_unref(opening->evicting.session);
  if (status == IDEM_OK)
    put_record(opening);
  else
    end_opening(opening, NULL, status);
}

/* Ends one that nobody uses; false: all are in use. */
static bool evict(idem__session_opening *opening) {
  idem__session_table *table = opening->session->table;
  idem__session_table_lock(table);
  idem__http_session *victim = idem__session_share_victim(opening->session);
  if (victim) idem__http_session_hold(victim);
  idem__session_table_unlock(table);
  if (!victim) return false;
  opening->evicted++;
  opening->evicting =
      (idem__session_removing){.session = victim, .removed = on_evicted, .user = opening};
  idem__http_session_remove(opening->queue, &opening->evicting);
  return true;
}

/* A record whose writing nobody heard of may be there: nobody will learn its id. */
static void make_sure(idem__session_opening *opening, idem_status status) {
  if (idem__is_unknown(status)) idem__http_session_end(opening->session);
}

/* Once in a while, for who asks is many. */
static void tell_no_room(idem__session_table *table) {
  uint64_t now = atomic_load(&table->now_ms), told = atomic_load(&table->no_room_ms);
  if ((told && now < told + NO_ROOM_TOLD_MS) ||
      !atomic_compare_exchange_strong(&table->no_room_ms, &told, now + 1))
    return;
  idem_logf(table->opts.server->opts.log, IDEM_LOG_WARN, "a session was refused", "%s",
            "the store has no room for it");
}

static void refuse_opening(idem__session_opening *opening, idem_status status) {
  if (status == IDEM_E_LIMIT) tell_no_room(opening->session->table);
  end_opening(opening, NULL, status);
}

static void on_written(const idem__store_answer *answer, void *user) {
  idem__session_opening *opening = user;
  opening->session->version = answer->version;
  make_sure(opening, answer->status);
  bool full = answer->status == IDEM_E_LIMIT && answer->number < IDEM__STORE_FULL_ELSE;
  if (answer->status == IDEM_OK)
    enter(opening);
  else if (!full || opening->evicted == EVICTED || !evict(opening))
    refuse_opening(opening, answer->status);
}

static void put_record(idem__session_opening *opening) {
  idem__session_table *table = opening->session->table;
  idem_buf text;
  idem__store_op op = idem__http_session_op(opening->session, IDEM__STORE_PUT);
  idem_buf_init(&text, &table->alloc, IDEM__RECORD_BYTES);
  idem_status status = idem__record_write(opening->session, &text);
  op.bytes = text.data;
  op.len = text.len;
  op.expect = IDEM__STORE_ABSENT;
  op.limit = table->opts.max_sessions;
  op.ttl_ms = table->opts.session_idle_ms + IDEM__SESSION_BUSY_MS;
  op.done = on_written;
  op.user = opening;
  if (status == IDEM_OK)
    idem__store_submit(table->store, opening->queue, &op, NULL);
  else
    end_opening(opening, NULL, status);
  idem_buf_deinit(&text);
}

void idem__http_session_open(const idem__session_first *first, idem__session_opened done,
                             void *user, idem__session_opening **handle) {
  idem__session_table *table = first->table;
  idem__session_table_see_time(table, first->now_ms);
  idem__http_session *session =
      idem__http_session_new(table, first->principal, first->revision, first->params);
  idem__session_opening *opening = session ? idem__calloc(&table->alloc, sizeof *opening) : NULL;
  if (!opening) {
    if (session) idem__http_session_destroy(session);
    done(NULL, IDEM_E_NOMEM, user);
    return;
  }
  session->claimed = first->claimed;
  *opening = (idem__session_opening){
      .session = session, .queue = first->queue, .handle = handle, .done = done, .user = user};
  *handle = opening;
  idem__session_table_make_id(table, session->id);
  put_record(opening);
}

/* Its record may be there already: then it goes when we hear of it. */
void idem__session_opening_abandon(idem__session_opening *opening) {
  if (!opening) return;
  *opening->handle = NULL;
  opening->handle = NULL;
  opening->done = NULL;
}
