/* spawn.h - starts a program the way a tool needs it: a process group of its own, only the
 * environment it is given, no way to gain privileges, and an end when the server dies. */
#ifndef IDEM_CLI_SPAWN_H
#define IDEM_CLI_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct spawn_order {
  const char *program;
  char *const *argv;
  char *const *environment;
  const char *cwd;
  int rules;        /* a Landlock ruleset to put on; -1: none */
  bool feeds_input; /* a pipe for its input; otherwise there is none to read */
} spawn_order;

typedef struct spawned {
  pid_t pid;  /* also its process group */
  int input;  /* -1 without feeds_input */
  int output; /* ours are closed on exec and do not block */
  int errors;
} spawned;

/* 0, or the errno that says why it could not be started; then nothing is left behind. */
int spawn_program(const spawn_order *order, spawned *out);

/* Orphans of our programs become our children, so that none is lost. */
void spawn_adopt_orphans(void);
/* Kills and reaps every child this process has, adopted ones too. */
void spawn_end_all(void);

#endif
