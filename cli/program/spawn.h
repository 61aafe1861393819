/* spawn.h - starts a program and ends what came of it, in a process that does nothing else: a
 * group of its own, only the environment it is given, no way to gain privileges. */
#ifndef IDEM_CLI_SPAWN_H
#define IDEM_CLI_SPAWN_H

#include "order.h"

/* Once in a process: what its programs inherit and must not shed. False: errno. */
bool spawn_prepare(void);
/* Its orphans' orphans become its children, so that none is lost. False: errno. */
bool spawn_adopt_orphans(void);

/* 0 and the program's pid, which is also its group; or the errno that says why it could not be
 * started, and then nothing is left behind. After one with a seal this process starts none with a
 * lesser one: EPERM. */
int spawn_program(const spawn_order *order, pid_t *pid);

/* Ends every child but those that `spared` knows: one look, what appears since is for the next.
 * False: there is no list of children to look at. */
typedef bool (*spawn_spared_fn)(pid_t pid);
bool spawn_kill_children(spawn_spared_fn spared);

#endif
