/* once_owner.c - a key's record may name a node that lives and has nothing to do with it any more: what that node wrote behind it was lost, with a Redis whose replica
 * took over and had less, say. Who waits would wait as long as that node lives, so it is asked, in the space and place of the record; the version goes with question and answer,
 * so that neither is about another run. See once.h. */
#include "once.h"
#include "server.h"

#include <string.h>

#define ASKED 'q'
#define DISOWNED 'n'

/* What is told: whether its node has it, or that it has not. */
typedef struct owner_news {
  uint8_t name[IDEM_SHA256_BYTES];
  char kind;
  uint64_t version;
  char node[IDEM__NODE_ID];
} owner_news;
#define NEWS_LEN (IDEM_SHA256_BYTES + 1 + 8 + IDEM__NODE_ID)

static void write_news(const owner_news *news, char text[NEWS_LEN]) {
  char *at = text + IDEM_SHA256_BYTES;
  memcpy(text, news->name, IDEM_SHA256_BYTES);
  *at++ = news->kind;
  for (int shift = 56; shift >= 0; shift -= 8) *at++ = (char)(news->version >> shift & 0xff);
  memcpy(at, news->node, IDEM__NODE_ID);
}

static void read_news(const char text[NEWS_LEN], owner_news *news) {
  const char *at = text + IDEM_SHA256_BYTES;
  memcpy(news->name, text, IDEM_SHA256_BYTES);
  news->kind = *at++;
  news->version = 0;
  for (int i = 0; i < 8; i++) news->version = news->version << 8 | (uint8_t)*at++;
  memcpy(news->node, at, IDEM__NODE_ID);
}

static void tell(idem_server *server, const owner_news *news) {
  char text[NEWS_LEN];
  write_news(news, text);
  idem__store_op op = {.verb = IDEM__STORE_TELL,
                       .space = IDEM__STORE_ONCE,
                       .name = text,
                       .name_len = sizeof text,
                       .lead = IDEM_SHA256_BYTES};
  idem__store_run(server->store, &op);
}

void idem__once_ask_owner(const idem__once *once) {
  owner_news news = {.kind = ASKED, .version = once->version};
  memcpy(news.name, once->name, sizeof news.name);
  memcpy(news.node, once->owner, sizeof news.node);
  tell(once->server, &news);
}

static idem__once *find(idem_server *server, const owner_news *news) {
  return idem_map_get(&server->onces->by_name, (const char *)news->name, sizeof news->name);
}

static bool is_for_us(idem_server *server, const owner_news *news) {
  idem__lock_take(&server->node.lock);
  bool ours = memcmp(server->node.id, news->node, sizeof news->node) == 0;
  idem__lock_give(&server->node.lock);
  return ours;
}

/* A key is in the table before its record names us, and until the store has what it came to: the version that was asked about is nobody's. */
static void answer(idem_server *server, const owner_news *asked) {
  idem__once_lock(server);
  bool has_it = find(server, asked) != NULL;
  idem__once_unlock(server);
  if (has_it || !is_for_us(server, asked)) return;
  owner_news news = *asked;
  news.kind = DISOWNED;
  tell(server, &news);
}

static void hear(idem_server *server, const owner_news *news) {
  idem__once_lock(server);
  idem__once *once = find(server, news);
  bool waits = once && once->stage == IDEM__ONCE_ELSEWHERE && once->announced == news->version;
  if (waits) once->disowned = news->version;
  if (waits) idem__once_flag(once);
  idem__once_unlock(server);
  if (waits) idem__server_wake(server);
}

bool idem__once_on_owner_news(idem_server *server, const char *text, size_t len) {
  owner_news news;
  if (len != NEWS_LEN) return false;
  read_news(text, &news);
  if (news.kind == ASKED)
    answer(server, &news);
  else if (news.kind == DISOWNED)
    hear(server, &news);
  return true;
}
