/* spawner.h - the processes that start programs. The spawner is started by the server, from the same
 * executable, and makes runners; a runner runs one program at a time and ends everything that came of
 * it. When the server is gone, however it went, they end what runs and then themselves. */
#ifndef IDEM_CLI_SPAWNER_H
#define IDEM_CLI_SPAWNER_H

#include <stdnoreturn.h>

#define SPAWNER_ARGUMENT "--spawner" /* of the executable; no one else uses it */
#define SPAWNER_SOCKET 3             /* where it finds its socket */
#define SPAWNER_HANDS 1024u          /* at a time */

/* The spawner; returns the exit status. */
int spawner_main(void);
/* A runner, in a process forked for it. */
noreturn void runner_main(int socket);

/* For both: lets a child's end interrupt sleep_on, and nothing else. */
void sleep_prepare(void);
/* Until the socket has something, a child has ended or the time is up; -1: no limit. True: it has. */
int sleep_on(int socket, int timeout_ms);

#endif
