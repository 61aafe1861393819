/* confine.h - what a program may reach, by Landlock where the kernel has it: the system's folders
 * and the configuration's to read, a temporary folder to write, no TCP; more where the file says. */
#ifndef IDEM_CLI_CONFINE_H
#define IDEM_CLI_CONFINE_H

#include "config.h"

typedef struct confinement {
  int abi;    /* of Landlock; 0: not there */
  int *rules; /* a ruleset for each tool; -1: none */
  size_t count;
  char temporary[64]; /* programs may write here; empty: there is none */
} confinement;

/* False: a ruleset could not be made where Landlock is there; stderr says why. */
bool confinement_init(confinement *self, const serve_config *config);
void confinement_deinit(confinement *self);

/* In a child that has given up privileges: 0, or errno in it. Safe between fork and exec. */
int confine_self(int rules);

#endif
