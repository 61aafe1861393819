/* pipes.h - the pipes between the server and a program. Those that every program needs are made while
 * there is time, for the next one. */
#ifndef IDEM_CLI_PIPES_H
#define IDEM_CLI_PIPES_H

#include <stdbool.h>

/* [0] is read from, [1] is written to; -1: not there. The server's ends do not block. */
typedef struct pipes {
  int input[2];
  int output[2];
  int errors[2];
} pipes;

#define PIPES_NONE ((pipes){{-1, -1}, {-1, -1}, {-1, -1}})

/* Takes what is in `spare`, or makes them; `input` only where asked for. False: errno. Close either
 * way. */
bool pipes_open(pipes *self, pipes *spare, bool with_input);
/* Makes the next one's. If they cannot be had, pipes_open will say so. */
void pipes_refill(pipes *spare);
/* Those that nobody has taken. */
void pipes_close(pipes *self);

/* Moves an end out. */
int pipe_take(int *end);
void pipe_close(int *end);

#endif
