/* redis_news.c - who is told of changes in a Redis store, whichever process made them.
 * Every change is published by the script that makes it, on one channel, to which the second connection listens. What is
 * published while that is broken is not heard: versions tell. */
#include "redis_store.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------- telling */

/* A number and the space behind it; what is left goes on from *at. */
static bool read_number(const char **at, const char *end, uint64_t *number) {
  const char *from = *at;
  *number = 0;
  for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
    if (*at - from >= 19) return false; /* what fits for certain */
    *number = *number * 10 + (uint64_t)(**at - '0');
  }
  if (*at == from || *at == end || **at != ' ') return false;
  (*at)++;
  return true;
}

/* "event space version name". Anybody with the right may publish, so what does not read so is nobody's. */
static void hear_message(redis_store *store, const char *text, size_t len) {
  const char *at = text, *end = text + len;
  uint64_t event, space, version;
  if (!read_number(&at, end, &event) || !read_number(&at, end, &space) ||
      !read_number(&at, end, &version))
    return;
  size_t name_len = (size_t)(end - at);
  if (event > IDEM__STORE_WAS_TOLD || space >= IDEM__STORE_SPACES || !name_len ||
      name_len > IDEM__STORE_NAME_MAX)
    return;
  idem__store_change change = {.event = (idem__store_event)event,
                               .space = (idem__store_space)space,
                               .name = at,
                               .name_len = name_len,
                               .version = version};
  idem__watchers_tell(&store->watchers, &change);
}

void redis_tell_return(redis_store *store) {
  static const idem__store_change change = {
      .event = IDEM__STORE_WAS_AWAY, .space = IDEM__STORE_KEYS, .name = ""};
  idem__watchers_tell(&store->watchers, &change);
}

static bool says(const redisReply *reply, const char *word) {
  return reply->type == REDIS_REPLY_STRING && (size_t)reply->len == strlen(word) &&
         memcmp(reply->str, word, strlen(word)) == 0;
}

/* Whoever breaks a connection off says why. */
static bool refuse_news(redis_store *store, const redisReply *reply) {
  if (reply->type == REDIS_REPLY_ERROR)
    redis_set_fault(store, "Redis tells no more news", reply->str, (size_t)reply->len);
  else
    redis_set_fault(store, "Redis answers what it was not asked", NULL, 0);
  return false;
}

/* ["message", channel, text], or ["pong", ""]. */
bool redis_hear_news(redis_store *store, const redisReply *reply) {
  redis_line *line = &store->lines[IDEM__REDIS_NEWS];
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2) return refuse_news(store, reply);
  line->due_ms = UINT64_MAX; /* it stands, whatever it says */
  if (says(reply->element[0], "pong")) return true;
  if (reply->elements != 3 || !says(reply->element[0], "message")) return refuse_news(store, reply);
  const redisReply *text = reply->element[2];
  if (says(reply->element[1], store->channel) && text->type == REDIS_REPLY_STRING)
    hear_message(store, text->str, (size_t)text->len);
  return true;
}

/* ---------------------------------------------------------------- watching */

idem_status redis_watch(idem__store *head, idem__store_space space, idem__store_watch_fn fn,
                        void *user, idem__store_watcher **out) {
  return idem__watchers_add(&redis_of(head)->watchers, space, fn, user, out);
}

void redis_unwatch(idem__store *head, idem__store_watcher *watcher) {
  idem__watchers_remove(&redis_of(head)->watchers, watcher);
}
