/* memory.h - what the files of idem-memory share: a store of texts that can be searched, and the MCP
 * server in front of it. */
#ifndef IDEM_MEMORY_H
#define IDEM_MEMORY_H

#include <idem/mcp.h>

#define TEXT_MAX 65536 /* characters of one memory; stands in the tool's schema, too */
#define QUERY_MAX 1000 /* characters of a search */
#define WORDS_MAX 32   /* words of a search that count */
#define MEMORIES_MAX 100000
#define ROWS_MAX 50 /* memories in one answer */
#define LISTED_MAX                                                                                 \
  ROWS_MAX /* latest memories in resources/list; the others can be read all the same */

/* ------------------------------------------------------------------- store */

typedef struct store store;

typedef struct memory {
  int64_t id;
  char *text;
  size_t len;
  char created[32]; /* 2026-07-28T12:00:00Z */
} memory;

typedef struct memories {
  memory items[ROWS_MAX];
  size_t count;
} memories;
void memories_free(memories *list);

/* Every function of the store may be called from any thread. OK; NOTFOUND; LIMIT: the store is full;
 * NOMEM; TIMEOUT: two seconds were not enough; SYS: SQLite failed, and stderr says how. */
idem_status store_open(const char *path, store **out, char *why, size_t why_len);
void store_close(store *self);
idem_status store_remember(store *self, const char *text, size_t len, int64_t *id);
idem_status store_forget(store *self, int64_t id);
idem_status store_read(store *self, int64_t id, memories *found);
/* The latest, at most `limit`, with ids below `before`. */
idem_status store_latest(store *self, int64_t before, int64_t limit, memories *found);
/* Those with any of the words, or of three letters and more with a word that begins so, the best first. INVAL: there is no word in the query. */
idem_status store_recall(store *self, const char *query, size_t len, int64_t limit,
                         memories *found);

/* ------------------------------------------------------------------ server */

/* Fills the server; the store must outlive it. False: said why on stderr. */
bool memory_serve(idem_server *server, store *from);

#endif
