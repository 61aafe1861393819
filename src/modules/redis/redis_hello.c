/* redis_hello.c - the first words of a connection to Redis: who we are, which database, the scripts or the channel.
 * No operation is sent before all of them were answered as they should be. */
#include "redis_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_MAX ((size_t)1 << 30) /* of one connection: the queue's bound is far below */

bool redis_line_put(redis_line *line, const char *bytes, size_t len) {
  if (line->at && line->at == line->len) line->at = line->len = 0;
  if (line->at > line->cap / 2) {
    memmove(line->out, line->out + line->at, line->len - line->at);
    line->len -= line->at;
    line->at = 0;
  }
  if (len > OUT_MAX - line->len) return false;
  if (line->cap - line->len < len) {
    size_t cap = line->cap ? line->cap : 4096;
    while (cap - line->len < len) cap *= 2;
    char *grown = realloc(line->out, cap);
    if (!grown) return false;
    line->out = grown;
    line->cap = cap;
  }
  memcpy(line->out + line->len, bytes, len);
  line->len += len;
  line->queued += len;
  return true;
}

bool redis_line_say(redis_line *line, int count, const char *const *words, const size_t *lens) {
  char *command = NULL;
  long len = (long)redisFormatCommandArgv(&command, count, (const char **)words, lens);
  bool said = len > 0 && redis_line_put(line, command, (size_t)len);
  redisFreeCommand(command);
  return said;
}

static bool greet(redis_line *line, const char *first, const char *second, const char *third) {
  const char *words[] = {first, second, third};
  line->greetings++;
  return redis_line_say(line, third ? 3 : 2, words, NULL);
}

static bool load_scripts(redis_line *line) {
  for (int i = 0; i < REDIS_SCRIPTS; i++) {
    char *text = redis_script_text((redis_script)i);
    if (!text) return false;
    bool said = greet(line, "SCRIPT", "LOAD", text);
    free(text);
    if (!said) return false;
  }
  return true;
}

bool redis_greet(redis_store *store, idem__redis_line which) {
  redis_line *line = &store->lines[which];
  char database[16];
  if (store->password && store->user && !greet(line, "AUTH", store->user, store->password))
    return false;
  if (store->password && !store->user && !greet(line, "AUTH", store->password, NULL)) return false;
  snprintf(database, sizeof database, "%u", store->database);
  if (store->database && !greet(line, "SELECT", database, NULL)) return false;
  if (which == IDEM__REDIS_NEWS) return greet(line, "SUBSCRIBE", store->channel, NULL);
  return greet(line, "CLUSTER", "SLOTS", NULL) && load_scripts(line);
}

/* ---------------------------------------------------------------- answers */

static bool is_ok(const redisReply *reply) {
  return reply->type == REDIS_REPLY_STATUS && reply->len == 2 && memcmp(reply->str, "OK", 2) == 0;
}

static bool take_sha(char *sha, const redisReply *reply) {
  if (reply->type != REDIS_REPLY_STRING || reply->len != REDIS_SHA_LEN) return false;
  for (int i = 0; i < REDIS_SHA_LEN; i++)
    if (!strchr("0123456789abcdef", reply->str[i])) return false;
  memcpy(sha, reply->str, REDIS_SHA_LEN);
  sha[REDIS_SHA_LEN] = 0;
  return true;
}

static bool is_subscribed(const redisReply *reply) {
  return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
         reply->element[0]->type == REDIS_REPLY_STRING && reply->element[0]->len == 9 &&
         memcmp(reply->element[0]->str, "subscribe", 9) == 0;
}

bool redis_hear_greeting(redis_store *store, idem__redis_line which, const redisReply *reply) {
  redis_line *line = &store->lines[which];
  unsigned at = line->greeted, first = (store->password ? 1u : 0u) + (store->database ? 1u : 0u);
  bool fine;
  if (at < first)
    fine = is_ok(reply);
  else if (which == IDEM__REDIS_NEWS)
    fine = is_subscribed(reply);
  else if (at == first)
    fine = redis_learn_nodes(store, reply);
  else
    fine = at - first <= REDIS_SCRIPTS && take_sha(store->sha[at - first - 1], reply);
  line->greeted++;
  line->greetings--;
  if (!fine && reply->type == REDIS_REPLY_ERROR)
    redis_set_fault(store, "Redis does not let us in", reply->str, (size_t)reply->len);
  else if (!fine)
    redis_set_fault(store, "Redis answers what it was not asked", NULL, 0);
  return fine;
}
