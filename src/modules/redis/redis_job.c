/* redis_job.c - an operation of a store as a command to Redis, and what Redis says to it.
 * An answer is [status, version, number, ...]; whatever does not read so breaks the connection, for then nothing that comes
 * behind it can be believed either. */
#include "redis_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 20
#define NUMBER_SIZE 24
#define SLACK_FROM_MS 60000u /* as the scripts have it: times to live from here on are longer ... */
#define SLACK_PART 16u       /* ... by this part of them, so that a touch is seldom a write */

/* ------------------------------------------------------------------ making */

static void *copy(char **at, const void *bytes, size_t len) {
  char *here = *at;
  if (len) memcpy(here, bytes, len);
  *at += len;
  return here;
}

static redis_script script_of(idem__store_verb verb) {
  switch (verb) {
  case IDEM__STORE_GET: return REDIS_GET;
  case IDEM__STORE_TOUCH: return REDIS_TOUCH;
  case IDEM__STORE_PEEK: return REDIS_PEEK;
  case IDEM__STORE_PUT: return REDIS_PUT;
  case IDEM__STORE_REMOVE: return REDIS_REMOVE;
  case IDEM__STORE_APPEND: return REDIS_APPEND;
  case IDEM__STORE_READ: return REDIS_READ;
  case IDEM__STORE_COUNT: return REDIS_COUNT;
  case IDEM__STORE_LIST: return REDIS_LIST;
  case IDEM__STORE_TELL: return REDIS_TELL;
  }
  return REDIS_GET;
}

redis_job *redis_job_new(const idem__store_op *op) {
  const char *group = op->group ? op->group : "";
  size_t group_size = strlen(group) + 1, name_len = op->name ? op->name_len : 0;
  if (op->len > SIZE_MAX / 4) return NULL;
  size_t size = sizeof(redis_job) + name_len + op->len + group_size;
  redis_job *job = malloc(size);
  if (!job) return NULL;
  *job = (redis_job){.op = *op, .size = size, .script = script_of(op->verb)};
  char *at = (char *)(job + 1);
  job->op.name = copy(&at, op->name, name_len);
  job->op.name_len = name_len;
  job->op.bytes = copy(&at, op->bytes, op->len);
  job->op.group = copy(&at, group, group_size);
  return job;
}

void redis_job_end(redis_store *store, redis_job *job, const idem__store_answer *answer) {
  pthread_mutex_lock(&store->lock);
  store->count--;
  store->bytes -= job->size;
  pthread_mutex_unlock(&store->lock);
  if (job->op.done) job->op.done(answer, job->op.user);
  free(job->kept);
  free(job);
}

/* ----------------------------------------------------------------- asking */

typedef struct words {
  int count;
  const char *at[WORDS_MAX];
  size_t len[WORDS_MAX];
  int numbers;
  char number[8][NUMBER_SIZE];
} words;

static void add(words *self, const char *bytes, size_t len) {
  self->at[self->count] = bytes;
  self->len[self->count++] = len;
}

static void add_text(words *self, const char *text) { add(self, text, strlen(text)); }

static void add_number(words *self, uint64_t number) {
  char *text = self->number[self->numbers++];
  snprintf(text, NUMBER_SIZE, "%" PRIu64, number);
  add_text(self, text);
}

static void add_expect(words *self, uint64_t expect) {
  if (expect == IDEM__STORE_ANY)
    add_text(self, "any");
  else
    add_number(self, expect);
}

/* How many of a log or list are wanted in the next answer. */
static size_t page_of(const redis_job *job) {
  const idem__store_op *op = &job->op;
  if (op->verb == IDEM__STORE_READ && (!op->each || op->after == UINT64_MAX)) return 0;
  bool few = op->verb == IDEM__STORE_LIST && op->limit && op->limit - job->shown < REDIS_PAGE;
  return few ? op->limit - job->shown : REDIS_PAGE;
}

bool redis_job_seals(const redis_store *store, const redis_job *job) {
  return store->replicas && job->script == REDIS_GET && job->op.space == IDEM__STORE_ONCE;
}

/* Of a store that is made now: a cluster is there to be used, one Redis has nothing to spread over. */
static unsigned wanted_parts(const redis_store *store) {
  if (store->parts) return store->parts;
  return store->node_count ? REDIS_CLUSTER_PARTS : 1;
}

/* Each part has its share. */
static size_t most_bytes(const redis_store *store) {
  unsigned parts = atomic_load(&store->there);
  return store->max_bytes / (parts ? parts : 1);
}

#define UNBOUNDED ((size_t)1 << 50)

static void add_arguments(words *self, const redis_store *store, const redis_job *job) {
  const idem__store_op *op = &job->op;
  switch (job->script) {
  case REDIS_GET: add_number(self, redis_job_seals(store, job)); break;
  case REDIS_TOUCH: add_number(self, op->ttl_ms); break;
  case REDIS_PUT:
    add_expect(self, op->expect);
    add_number(self, op->ttl_ms);
    add_number(self, op->limit);
    add_number(self, op->owed ? UNBOUNDED : most_bytes(store));
    add_text(self, op->group);
    add(self, op->bytes, op->len);
    add_number(self, op->group_limit);
    break;
  case REDIS_REMOVE: add_expect(self, op->expect); break;
  case REDIS_APPEND:
    add_number(self, op->limit);
    add_number(self, most_bytes(store));
    add(self, op->bytes, op->len);
    break;
  case REDIS_READ:
    add_number(self, op->after + 1);
    add_number(self, page_of(job));
    break;
  case REDIS_COUNT: add_number(self, op->after); break;
  case REDIS_LIST:
    add_number(self, op->after);
    add_number(self, page_of(job));
    break;
  case REDIS_JOIN: add_number(self, wanted_parts(store)); break;
  case REDIS_TELL:
  case REDIS_SWEEP:
  case REDIS_PEEK:
  case REDIS_SCRIPTS: break;
  }
}

/* The keys of a record and of its space, each with the hash tag. */
typedef struct keys {
  char meta[REDIS_BASE_MAX + 8], expiries[REDIS_BASE_MAX + 8];
  char record[REDIS_BASE_MAX + 8 + IDEM__STORE_NAME_MAX];
  char log[REDIS_BASE_MAX + 8 + IDEM__STORE_NAME_MAX];
  char group[REDIS_BASE_MAX + 8 + IDEM__STORE_GROUP_MAX + 1];
} keys;

/* "{prefix}:rS:NAME", whose name may hold any byte. */
static void add_named(words *self, char *key, const redis_store *store, char kind,
                      const redis_job *job) {
  int len = snprintf(key, REDIS_BASE_MAX + 8, "%s:%c%u:", store->base, kind, job->op.space);
  if (job->op.name_len) memcpy(key + len, job->op.name, job->op.name_len);
  add(self, key, (size_t)len + job->op.name_len);
}

static void add_keys(words *self, keys *names, const redis_store *store, const redis_job *job) {
  snprintf(names->meta, sizeof names->meta, "%s:m", store->base);
  snprintf(names->expiries, sizeof names->expiries, "%s:x%u", store->base, job->op.space);
  snprintf(names->group, sizeof names->group, "%s:g%u:%s", store->base, job->op.space,
           job->op.group ? job->op.group : "");
  add_text(self, "5");
  add_text(self, names->meta);
  add_text(self, names->expiries);
  add_named(self, names->record, store, 'r', job);
  add_named(self, names->log, store, 'l', job);
  add_text(self, names->group);
}

static long format_peek(const redis_store *store, const redis_job *job, char **command) {
  words all = {.count = 0};
  char record[REDIS_BASE_MAX + 8 + IDEM__STORE_NAME_MAX];
  add_text(&all, "HMGET");
  add_named(&all, record, store, 'r', job);
  add_text(&all, "n");
  add_text(&all, "e");
  return (long)redisFormatCommandArgv(command, all.count, all.at, all.len);
}

long redis_job_format(redis_store *store, const redis_job *job, char **command) {
  words all = {.count = 0};
  keys names;
  if (job->script == REDIS_PEEK) return format_peek(store, job, command);
  char *script = job->whole ? redis_script_text(job->script) : NULL;
  *command = NULL;
  if (job->whole && !script) return -1;
  add_text(&all, script ? "EVAL" : "EVALSHA");
  add_text(&all, script ? script : store->sha[job->script]);
  add_keys(&all, &names, store, job);
  add_number(&all, job->op.space);
  add(&all, job->op.name, job->op.name_len);
  add_number(&all, atomic_load(&store->stopped_ms));
  add_arguments(&all, store, job);
  add_number(&all, atomic_load(&store->there));
  long len = (long)redisFormatCommandArgv(command, all.count, all.at, all.len);
  free(script);
  return len;
}

/* ---------------------------------------------------------------- hearing */

static bool is_string(const redisReply *reply) {
  return reply->type == REDIS_REPLY_STRING && reply->str;
}

static bool read_number(const redisReply *reply, uint64_t *number) {
  *number = 0;
  if (!is_string(reply) || !reply->len || reply->len > 19) return false;
  for (size_t i = 0; i < (size_t)reply->len; i++) {
    if (reply->str[i] < '0' || reply->str[i] > '9') return false;
    *number = *number * 10 + (uint64_t)(reply->str[i] - '0');
  }
  return true;
}

static bool read_status(const redisReply *reply, idem_status *status) {
  static const idem_status known[] = {IDEM_OK, IDEM_E_NOTFOUND, IDEM_E_EXISTS, IDEM_E_STATE,
                                      IDEM_E_LIMIT};
  if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 0 ||
      reply->integer >= (long long)(sizeof known / sizeof *known))
    return false;
  *status = known[reply->integer];
  return true;
}

/* One entry or record of a page; false: no answer of ours. */
static bool read_item(const redis_job *job, redisReply *const *at, idem__store_item *item) {
  bool entry = job->script == REDIS_READ;
  const redisReply *bytes = at[entry ? 1 : 3];
  if (!read_number(at[0], &item->number) || !is_string(bytes)) return false;
  if (!entry && (!read_number(at[1], &item->version) || !is_string(at[2]))) return false;
  if (!entry) {
    item->name = at[2]->str;
    item->name_len = (size_t)at[2]->len;
  }
  item->bytes = bytes->str;
  item->len = (size_t)bytes->len;
  return true;
}

/* Numbers only go up: a page that does not get on would be asked for without end. */
static redis_outcome hear_page(redis_job *job, const redisReply *reply,
                               const idem__store_answer *answer) {
  size_t step = job->script == REDIS_READ ? 2 : 4;
  if (reply->elements != 5 || reply->element[3]->type != REDIS_REPLY_INTEGER) return REDIS_BROKEN;
  const redisReply *page = reply->element[4];
  if (page->type != REDIS_REPLY_ARRAY || page->elements % step) return REDIS_BROKEN;
  uint64_t before = job->op.after;
  bool more = reply->element[3]->integer == 1;
  for (size_t i = 0; i < page->elements; i += step) {
    idem__store_item item = {.number = 0};
    if (!read_item(job, page->element + i, &item) || item.number <= job->op.after)
      return REDIS_BROKEN;
    job->op.after = item.number;
    job->shown++;
    if (!job->op.each || !job->op.each(&item, job->op.user)) return REDIS_DONE;
    if (job->op.verb == IDEM__STORE_LIST && job->op.limit && job->shown >= job->op.limit)
      return REDIS_DONE;
  }
  if (job->script == REDIS_LIST && answer->number > job->op.after) job->op.after = answer->number;
  if (more && job->op.after <= before) return REDIS_BROKEN;
  return more ? REDIS_AGAIN : REDIS_DONE;
}

static bool begins_with(const redisReply *reply, const char *word) {
  return (size_t)reply->len >= strlen(word) && memcmp(reply->str, word, strlen(word)) == 0;
}

/* What a script found gone to another node when it wanted to look at it: before it had changed anything, as all of ours do. */
static bool has_left(const redisReply *reply) {
  static const char gone[] = "non local key";
  return memmem(reply->str, (size_t)reply->len, gone, sizeof gone - 1) != NULL;
}

/* Said before a script begins. While a slot is on its way (ASK, TRYAGAIN) its keys are in two places, and a script needs all of
 * them in one: it waits until the move is over, which MOVED says. */
static bool is_elsewhere(redis_store *store, const redisReply *reply) {
  if (begins_with(reply, "MOVED ")) {
    store->moving = redis_learn_owner(store, reply->str, (size_t)reply->len);
    return store->moving;
  }
  return begins_with(reply, "ASK ") || begins_with(reply, "TRYAGAIN") ||
         begins_with(reply, "CLUSTERDOWN") || has_left(reply);
}

/* Before a script has begun, or because there is no memory; all else is not known. */
static redis_outcome hear_error(redis_store *store, redis_job *job, const redisReply *reply,
                                idem__store_answer *answer) {
  if (begins_with(reply, "NOSCRIPT") && !job->whole) {
    job->whole = true;
    return REDIS_AGAIN;
  }
  if (is_elsewhere(store, reply)) return REDIS_ASIDE;
  answer->status = begins_with(reply, "OOM") ? IDEM_E_LIMIT : IDEM_E_SYS;
  if (answer->status == IDEM_E_LIMIT) answer->number = IDEM__STORE_FULL_OUTSIDE;
  redis_set_fault(store, "Redis refused an operation", reply->str, (size_t)reply->len);
  return begins_with(reply, "READONLY") || begins_with(reply, "NOAUTH") ? REDIS_BROKEN : REDIS_DONE;
}

static bool has_value(const redisReply *reply, idem__store_answer *answer) {
  if (reply->elements != 4 || !is_string(reply->element[3])) return false;
  answer->bytes = reply->element[3]->str;
  answer->len = (size_t)reply->element[3]->len;
  return true;
}

/* What Redis's clock shows by now: never more, and less by what its last word was on its way. 0: it is not known. */
static uint64_t redis_now_ms(const redis_store *store, uint64_t now_ms) {
  uint64_t stopped = atomic_load(&store->stopped_ms);
  if (stopped || !store->clock_ms) return stopped;
  return store->clock_ms + (now_ms - store->clocked_ms);
}

/* As `touch` judges it. A clock that is behind by what an answer may take makes no difference to a time that has slack, and others are not
 * judged here. */
static bool has_enough(const redis_store *store, const idem__store_op *op, uint64_t expires,
                       uint64_t now) {
  uint64_t slack = op->ttl_ms >= SLACK_FROM_MS ? op->ttl_ms / SLACK_PART : 0;
  if (!op->ttl_ms) return !expires;
  if (!now || slack < 2 * store->wait_ms) return false;
  return expires >= now + op->ttl_ms + store->wait_ms &&
         expires <= now + op->ttl_ms + slack + store->wait_ms;
}

static redis_outcome hear_peek(const redis_store *store, const redis_job *job,
                               const redisReply *reply, uint64_t now_ms,
                               idem__store_answer *answer) {
  uint64_t version, expires, now = redis_now_ms(store, now_ms);
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) return REDIS_BROKEN;
  if (reply->element[0]->type == REDIS_REPLY_NIL) {
    answer->status = IDEM_E_NOTFOUND;
    return REDIS_DONE;
  }
  if (!read_number(reply->element[0], &version) || !read_number(reply->element[1], &expires))
    return REDIS_BROKEN;
  if (expires && expires <= now)
    answer->status = IDEM_E_NOTFOUND; /* not swept yet */
  else
    *answer = (idem__store_answer){
        .status = IDEM_OK, .version = version, .number = has_enough(store, &job->op, expires, now)};
  return REDIS_DONE;
}

/* Our own operations bring it along. */
static void hear_clock(redis_store *store, const redisReply *reply, uint64_t now_ms) {
  uint64_t clock;
  if (reply->elements < 4 || !read_number(reply->element[3], &clock)) return;
  store->clock_ms = clock;
  store->clocked_ms = now_ms;
}

redis_outcome redis_job_hear(redis_store *store, redis_job *job, const redisReply *reply,
                             uint64_t now_ms, idem__store_answer *answer) {
  *answer = (idem__store_answer){.status = IDEM_E_SYS};
  if (reply->type == REDIS_REPLY_ERROR) return hear_error(store, job, reply, answer);
  if (job->script == REDIS_PEEK) return hear_peek(store, job, reply, now_ms, answer);
  idem_status status;
  uint64_t version, number;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
      !read_status(reply->element[0], &status) || !read_number(reply->element[1], &version) ||
      !read_number(reply->element[2], &number))
    return REDIS_BROKEN;
  idem__store_answer said = {.status = status, .version = version, .number = number};
  if (job->script == REDIS_JOIN || job->script == REDIS_SWEEP) hear_clock(store, reply, now_ms);
  redis_outcome outcome = REDIS_DONE;
  bool pages = job->script == REDIS_READ || job->script == REDIS_LIST;
  if (status == IDEM_OK && pages) outcome = hear_page(job, reply, &said);
  if (status == IDEM_OK && job->script == REDIS_GET && !has_value(reply, &said))
    outcome = REDIS_BROKEN;
  if (job->script == REDIS_LIST) said.number = 0;
  if (outcome == REDIS_DONE) *answer = said;
  return outcome;
}
