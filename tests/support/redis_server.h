/* redis_server.h - a Redis of the distribution for a test's own: in a folder of its own, on a socket there and, where a test
 * asks for it, on a free port of this machine; ended by its process id. */
#ifndef IDEM_TEST_REDIS_SERVER_H
#define IDEM_TEST_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#define REDIS_SERVER_ARGS 16

typedef struct redis_server {
  char folder[64];
  char socket[96];
  pid_t pid;
  int out;                             /* what it says */
  const char *more[REDIS_SERVER_ARGS]; /* further arguments, up to NULL: lent */
} redis_server;

/* A folder, and a server in it; waits until it takes connections. False, with a line on stderr: there is no redis-server. */
bool redis_server_start(redis_server *self, const char *const *more);
/* Ends it with the signal and waits; the folder stays. */
void redis_server_kill(redis_server *self, int signal);
/* Another one in the same folder, as the first was started. */
bool redis_server_again(redis_server *self);
/* Ends it and removes the folder. */
void redis_server_stop(redis_server *self);
/* A port that nobody has, for the moment. */
unsigned redis_server_free_port(void);
/* One command, words separated by spaces, and its answer: the bytes of a string, else its first line (static). */
const char *redis_server_ask(const redis_server *self, const char *command);

#endif
