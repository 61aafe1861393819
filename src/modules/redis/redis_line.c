/* redis_line.c - the two connections of a Redis store: what is sent, what is heard, and what becomes of operations when one
 * breaks. A command that was not sent to its last byte did not happen and goes with the next connection; of one that was
 * sent, nobody knows. */
#include "redis_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_BYTES ((size_t)256 * 1024)         /* commands are written while less than that waits */
#define ANSWER_MAX ((size_t)128 * 1024 * 1024) /* bytes of one answer */
#define ELEMENTS_MAX 1024u
#define SWEEP_MS 1000u /* a space's records whose time is over, one space at a time */
#define PING_MS 5000u
#define ASIDE_MS 50u /* before a node is asked again what it could not do */

/* ------------------------------------------------------------------ bounds */

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

/* hiredis would make room for as many as were announced. */
static void *create_array(const redisReadTask *task, element_count elements) {
  const redis_line *line = task->privdata;
  if ((size_t)elements > ELEMENTS_MAX) return NULL;
  return line->functions[1].createArray(task, elements);
}

static bool make_reader(redis_line *line) {
  line->reader = redisReaderCreate();
  if (!line->reader) return false;
  line->functions[0] = line->functions[1] = *line->reader->fn;
  line->functions[0].createArray = create_array;
  line->reader->fn = line->functions;
  line->reader->privdata = line;
  return true;
}

/* --------------------------------------------------------------- readiness */

bool redis_joined(idem__store *head) { return redis_of(head)->joined; }

bool redis_ready(idem__store *head) {
  const redis_store *store = redis_of(head);
  return store->joined && store->lines[IDEM__REDIS_NEWS].ready;
}

/* Operations go out when both are: nothing is done that nobody here would hear of. */
static void note_ready(redis_store *store, uint64_t now_ms) {
  if (!redis_ready(&store->head)) return;
  bool again = store->was_ready;
  store->was_ready = true;
  store->sweep_ms = now_ms + SWEEP_MS;
  atomic_store(&store->is_ready, true);
  redis_take_requests(store);
  if (again) redis_tell_return(store);
}

/* Where it was told to go it has not been yet. */
static void look_at_grace(redis_store *store, uint64_t now_ms) {
  if (redis_ready(&store->head)) return;
  bool first = !store->was_ready && !store->owner_is_new;
  bool late = store->was_ready && now_ms >= store->lost_ms + store->grace_ms;
  if (first || late || store->stranger) redis_refuse_waiting(store, IDEM_E_SYS, true);
}

void redis_begin(idem__store *head, idem__redis_line which, uint64_t now_ms) {
  redis_store *store = redis_of(head);
  redis_line *line = &store->lines[which];
  redis_line_close(line);
  store->fault[0] = 0; /* whatever it was, it was said */
  line->open = make_reader(line) && redis_greet(store, which);
  line->due_ms = now_ms + store->wait_ms;
}

void redis_line_close(redis_line *line) {
  if (line->reader) redisReaderFree(line->reader);
  free(line->out);
  *line = (redis_line){.due_ms = UINT64_MAX};
}

/* ------------------------------------------------------------------ output */

/* By this a process knows whether its store is fit for use: others are refused what must be with replicas where too few answer. */
static bool is_lease(const redis_job *job) {
  return job->script == REDIS_TOUCH && job->op.space == IDEM__STORE_NODES;
}

/* Whether replicas must have what it changes, or shows: what a key came to is told from there. */
static bool waits(const redis_store *store, const redis_job *job) {
  return redis_job_seals(store, job) ||
         (store->replicas &&
          (job->script == REDIS_PUT || job->script == REDIS_REMOVE || job->script == REDIS_APPEND ||
           job->script == REDIS_COUNT || is_lease(job)));
}

static bool say_wait(const redis_store *store, redis_line *line) {
  char replicas[16], ms[24];
  snprintf(replicas, sizeof replicas, "%u", store->replicas);
  snprintf(ms, sizeof ms, "%u", store->wait_ms < 4000 ? (unsigned)store->wait_ms / 4 + 1 : 1000u);
  const char *words[] = {"WAIT", replicas, ms};
  return redis_line_say(line, 3, words, NULL);
}

static bool send_job(redis_store *store, redis_job *job, uint64_t now_ms) {
  redis_line *line = &store->lines[IDEM__REDIS_COMMANDS];
  char *command;
  long len = redis_job_format(store, job, &command);
  bool said = len > 0 && redis_line_put(line, command, (size_t)len);
  redisFreeCommand(command);
  if (!said) return false;
  job->heard = false;
  job->end = line->queued; /* once this much is sent it may happen, whether WAIT is or not */
  if (waits(store, job) && !say_wait(store, line)) line->broken = true;
  job->due_ms = now_ms + store->wait_ms;
  if (!job->tried_ms) job->tried_ms = now_ms;
  idem_list_append(&store->flying, &job->link);
  return true;
}

/* What the store counts, and nobody asked for. */
static redis_job *new_own_job(redis_store *store, redis_script script, idem__store_space space,
                              idem__store_done done) {
  idem__store_op op = {.space = space, .done = done, .user = store};
  redis_job *job = redis_job_new(&op);
  if (!job) return NULL;
  job->script = script;
  pthread_mutex_lock(&store->lock);
  store->count++;
  store->bytes += job->size;
  pthread_mutex_unlock(&store->lock);
  return job;
}

/* Whoever finds another number of parts would look for records where they are not. */
static void on_joined(const idem__store_answer *answer, void *user) {
  redis_store *store = user;
  char parts[16];
  store->joining = false;
  if (answer->status != IDEM_OK) return;
  store->stranger = !answer->number || answer->number > IDEM__STORE_PARTS_MAX ||
                    (store->parts && answer->number != store->parts);
  store->joined = !store->stranger;
  if (store->joined) atomic_store(&store->there, (unsigned)answer->number);
  snprintf(parts, sizeof parts, "parts=%u", (unsigned)(answer->number & 0xffffu));
  if (store->stranger)
    redis_set_fault(store, "the store has another number of parts than it was named with", parts,
                    sizeof parts);
}

static void ask_to_join(redis_store *store, uint64_t now_ms) {
  if (store->joining || now_ms < store->resume_ms) return;
  redis_job *job = new_own_job(store, REDIS_JOIN, IDEM__STORE_SESSIONS, on_joined);
  store->joining = job != NULL;
  if (job && send_job(store, job, now_ms)) return;
  store->lines[IDEM__REDIS_COMMANDS].broken = true;
  if (job) redis_job_end(store, job, &(idem__store_answer){.status = IDEM_E_NOMEM});
}

static void fill(redis_store *store, uint64_t now_ms) {
  redis_line *line = &store->lines[IDEM__REDIS_COMMANDS];
  redis_job *job;
  while (line->len - line->at < OUT_BYTES && (job = redis_take_job(store)))
    if (!send_job(store, job, now_ms))
      redis_job_end(store, job, &(idem__store_answer){.status = IDEM_E_NOMEM});
}

size_t redis_output(idem__store *head, idem__redis_line which, uint64_t now_ms,
                    const char **bytes) {
  redis_store *store = redis_of(head);
  redis_line *line = &store->lines[which];
  bool free = which == IDEM__REDIS_COMMANDS && redis_ready(head) && now_ms >= store->resume_ms;
  if (which == IDEM__REDIS_COMMANDS && line->ready && !store->joined) ask_to_join(store, now_ms);
  if (free && idem_list_empty(&store->aside) && !store->moving) fill(store, now_ms);
  *bytes = line->out ? line->out + line->at : "";
  return line->len - line->at;
}

void redis_sent(idem__store *head, idem__redis_line which, size_t len) {
  redis_line *line = &redis_of(head)->lines[which];
  line->at += len;
  line->sent += len;
}

/* ------------------------------------------------------------------- input */

/* Those that were set aside are the next again, in their order. */
void redis_take_back(redis_store *store) {
  while (!idem_list_empty(&store->aside)) {
    redis_job *job = IDEM_CONTAINER(store->aside.prev, redis_job, link);
    idem_list_remove(&job->link);
    redis_put_back(store, job);
  }
}

/* Not for ever: a cluster may stay as it is. */
static void set_aside(redis_store *store, redis_job *job, uint64_t now_ms) {
  if (job->script == REDIS_JOIN) { /* asked anew */
    store->resume_ms = now_ms + ASIDE_MS;
    redis_job_end(store, job, &(idem__store_answer){.status = IDEM_E_SYS});
    return;
  }
  if (now_ms - job->tried_ms < store->wait_ms) {
    idem_list_append(&store->aside, &job->link);
    return;
  }
  redis_set_fault(store, "the cluster has no node for the store", NULL, 0);
  atomic_fetch_add(&store->refused, 1);
  redis_job_end(store, job,
                &(idem__store_answer){.status = IDEM_E_SYS, .number = IDEM__STORE_NOT_DONE});
}

/* No answer is owed any more. False: it goes on with another node. */
static bool go_on(redis_store *store, uint64_t now_ms) {
  if (!idem_list_empty(&store->flying)) return true;
  if (store->moving) {
    char where[sizeof store->owner.host + sizeof store->owner.port + 1];
    snprintf(where, sizeof where, "%s:%s", store->owner.host, store->owner.port);
    redis_set_fault(store, "the cluster has the store at", where, sizeof where);
    return false;
  }
  if (!idem_list_empty(&store->aside)) store->resume_ms = now_ms + ASIDE_MS;
  redis_take_back(store);
  return true;
}

/* How many replicas have what was done. Too few: it happened here, and may be lost with this Redis. */
static redis_outcome hear_wait(redis_store *store, const redis_job *job, const redisReply *reply,
                               idem__store_answer *answer) {
  if (reply->type != REDIS_REPLY_INTEGER && reply->type != REDIS_REPLY_ERROR) return REDIS_BROKEN;
  bool enough = reply->type == REDIS_REPLY_INTEGER && reply->integer >= (long long)store->replicas;
  if (!enough && job->outcome == REDIS_DONE && answer->status == IDEM_OK) {
    redis_set_fault(store, "too few replicas of Redis answer", NULL, 0);
    atomic_fetch_add(&store->unknown, 1);
    *answer = (idem__store_answer){.status = IDEM_E_SYS};
  }
  return job->outcome;
}

/* Until that of WAIT is here. Its bytes are the reply's, which goes. */
static void keep_answer(redis_job *job, redis_outcome outcome, const idem__store_answer *answer) {
  job->heard = true;
  job->outcome = outcome;
  job->answer = *answer;
  if (!answer->len) return;
  free(job->kept);
  job->answer.bytes = job->kept = malloc(answer->len);
  if (job->kept)
    memcpy(job->kept, answer->bytes, answer->len);
  else
    job->answer = (idem__store_answer){.status = IDEM_E_NOMEM};
}

static bool hear_answer(redis_store *store, const redisReply *reply, uint64_t now_ms) {
  if (idem_list_empty(&store->flying)) {
    redis_set_fault(store, "Redis answers what it was not asked", NULL, 0);
    return false;
  }
  redis_job *job = IDEM_CONTAINER(store->flying.next, redis_job, link);
  idem__store_answer answer = job->answer;
  redis_outcome outcome = job->heard ? hear_wait(store, job, reply, &answer)
                                     : redis_job_hear(store, job, reply, now_ms, &answer);
  if (!job->heard && outcome != REDIS_BROKEN && waits(store, job)) {
    keep_answer(job, outcome, &answer);
    return true;
  }
  if (outcome == REDIS_BROKEN) {
    if (reply->type != REDIS_REPLY_ERROR)
      redis_set_fault(store, "Redis does not answer as the store's scripts do", NULL, 0);
    return false; /* the job ends with the connection */
  }
  idem_list_remove(&job->link);
  if (outcome == REDIS_ASIDE) {
    set_aside(store, job, now_ms);
    return go_on(store, now_ms);
  }
  if (outcome == REDIS_AGAIN && send_job(store, job, now_ms)) return true;
  if (outcome == REDIS_AGAIN) answer.status = IDEM_E_NOMEM;
  bool joins = job->script == REDIS_JOIN;
  atomic_fetch_add(&store->answered, 1);
  redis_job_end(store, job, &answer);
  if (joins && !store->joined) return false;
  if (joins) note_ready(store, now_ms);
  return go_on(store, now_ms);
}

static bool hear(redis_store *store, idem__redis_line which, const redisReply *reply,
                 uint64_t now_ms) {
  redis_line *line = &store->lines[which];
  if (line->ready && which == IDEM__REDIS_NEWS) return redis_hear_news(store, reply);
  if (line->ready) return hear_answer(store, reply, now_ms);
  if (!redis_hear_greeting(store, which, reply)) return false;
  if (line->greetings) return true;
  line->ready = true;
  line->due_ms = UINT64_MAX;
  line->ping_ms = now_ms + PING_MS;
  if (which == IDEM__REDIS_COMMANDS) store->greeted_ms = now_ms;
  note_ready(store, now_ms);
  return true;
}

/* True and no reply: more bytes are wanted. */
static bool next_reply(redis_store *store, redis_line *line, redisReply **reply) {
  void *read = NULL;
  bool fine = redisReaderGetReply(line->reader, &read) == REDIS_OK;
  *reply = read;
  if (!fine) redis_set_fault(store, "Redis breaks its protocol", line->reader->errstr, 128);
  return fine;
}

bool redis_feed(idem__store *head, idem__redis_line which, const char *data, size_t len,
                uint64_t now_ms) {
  redis_store *store = redis_of(head);
  redis_line *line = &store->lines[which];
  redisReply *reply;
  if (!line->open || redisReaderFeed(line->reader, data, len) != REDIS_OK) {
    redis_set_fault(store, "there is no memory", NULL, 0);
    return false;
  }
  for (;;) {
    if (!next_reply(store, line, &reply)) return false;
    if (!reply) break;
    bool fine = hear(store, which, reply, now_ms);
    freeReplyObject(reply);
    if (!fine) return false;
  }
  if (line->reader->len - line->reader->pos <= ANSWER_MAX) return true;
  redis_set_fault(store, "an answer of Redis is too long", NULL, 0);
  return false;
}

/* -------------------------------------------------------------------- time */

static void on_swept(const idem__store_answer *answer, void *user) {
  redis_store *store = user;
  store->sweeping = false;
  if (answer->status != IDEM_OK || answer->number < 256)
    store->sweep_space = (store->sweep_space + 1) % IDEM__STORE_SPACES;
}

static void begin_sweep(redis_store *store, uint64_t now_ms) {
  idem__store_space space = (idem__store_space)store->sweep_space;
  store->sweep_ms = now_ms + SWEEP_MS;
  redis_job *job = store->sweeping ? NULL : new_own_job(store, REDIS_SWEEP, space, on_swept);
  if (!job) return;
  store->sweeping = true;
  pthread_mutex_lock(&store->lock);
  idem_list_append(&store->queue, &job->link);
  pthread_mutex_unlock(&store->lock);
}

static bool tick_news(redis_store *store, uint64_t now_ms) {
  static const char *const ping[] = {"PING"};
  redis_line *line = &store->lines[IDEM__REDIS_NEWS];
  if (!line->ready || now_ms < line->ping_ms) return true;
  line->ping_ms = now_ms + PING_MS;
  line->due_ms = now_ms + store->wait_ms;
  if (redis_line_say(line, 1, ping, NULL)) return true;
  redis_set_fault(store, "there is no memory", NULL, 0);
  return false;
}

static uint64_t first_due(const redis_store *store, idem__redis_line which) {
  const redis_line *line = &store->lines[which];
  if (which == IDEM__REDIS_NEWS || idem_list_empty(&store->flying)) return line->due_ms;
  uint64_t due = IDEM_CONTAINER(store->flying.next, redis_job, link)->due_ms;
  return due < line->due_ms ? due : line->due_ms;
}

static uint64_t earlier(uint64_t one, uint64_t other) { return one < other ? one : other; }

bool redis_tick(idem__store *head, idem__redis_line which, uint64_t now_ms, uint64_t *next_ms) {
  redis_store *store = redis_of(head);
  redis_line *line = &store->lines[which];
  bool commands = which == IDEM__REDIS_COMMANDS;
  *next_ms = UINT64_MAX;
  if (commands && store->was_ready) look_at_grace(store, now_ms);
  if (commands && store->was_ready && !redis_ready(head))
    *next_ms =
        now_ms < store->lost_ms + store->grace_ms ? store->lost_ms + store->grace_ms : UINT64_MAX;
  if (!line->open) return true;
  if (commands && redis_ready(head) && now_ms >= store->sweep_ms) begin_sweep(store, now_ms);
  if (!commands && !tick_news(store, now_ms)) return false;
  uint64_t due = first_due(store, which);
  if (line->broken) {
    redis_set_fault(store, "there is no memory", NULL, 0);
    return false;
  }
  if (now_ms >= due) {
    redis_set_fault(store, "Redis does not answer in time", NULL, 0);
    return false;
  }
  bool waits_to_join = commands && line->ready && !store->joined;
  if (waits_to_join && now_ms >= store->greeted_ms + store->wait_ms) {
    redis_set_fault(store, "the cluster has no node for the store", NULL, 0);
    return false;
  }
  *next_ms = earlier(*next_ms, due);
  if (commands && now_ms < store->resume_ms) *next_ms = earlier(*next_ms, store->resume_ms);
  if (commands && redis_ready(head)) *next_ms = earlier(*next_ms, store->sweep_ms);
  if (waits_to_join) *next_ms = earlier(*next_ms, store->greeted_ms + store->wait_ms);
  if (!commands && line->ready) *next_ms = earlier(*next_ms, line->ping_ms);
  return true;
}

/* -------------------------------------------------------------------- ends */

/* What was not sent whole waits for the next connection, in its order; of the rest nobody knows. */
static void land(redis_store *store, uint64_t sent) {
  for (idem_list *at = store->flying.prev; at != &store->flying;) {
    redis_job *job = IDEM_CONTAINER(at, redis_job, link);
    at = at->prev;
    if (job->end <= sent) break;
    idem_list_remove(&job->link);
    if (job->script == REDIS_JOIN)
      redis_job_end(store, job, &(idem__store_answer){.status = IDEM_E_SYS});
    else
      redis_put_back(store, job);
  }
  redis_take_back(store); /* they were sent before those */
  store->moving = false;
  while (!idem_list_empty(&store->flying)) {
    redis_job *job = IDEM_CONTAINER(store->flying.next, redis_job, link);
    idem_list_remove(&job->link);
    atomic_fetch_add(&store->unknown, 1);
    redis_job_end(store, job, &(idem__store_answer){.status = IDEM_E_SYS});
  }
}

void redis_end(idem__store *head, idem__redis_line which, uint64_t now_ms) {
  redis_store *store = redis_of(head);
  uint64_t sent = store->lines[which].sent;
  if (redis_ready(head)) store->lost_ms = now_ms;
  atomic_store(&store->is_ready, false);
  redis_line_close(&store->lines[which]);
  if (which == IDEM__REDIS_COMMANDS) {
    store->joined = false;
    store->clock_ms = 0; /* the next may be another machine */
    land(store, sent);
  }
  look_at_grace(store, now_ms);
}
