/* confine.h - what a program may reach. Files by Landlock where the kernel has it: the system's
 * folders and the configuration's to read, a temporary folder to write. No sockets, by seccomp.
 * More where the configuration says so. */
#ifndef IDEM_CLI_CONFINE_H
#define IDEM_CLI_CONFINE_H

#include "config.h"

/* A ruleset, for every tool with the same bounds. */
typedef struct ruleset {
  int fd;
  const tool_config *like; /* the tool it was made for */
  bool for_its_program;    /* which stands outside the system's folders */
} ruleset;

typedef struct confinement {
  const serve_config *config;
  const char *temporary; /* programs may write here; empty: there is none */
  int abi;               /* of Landlock; 0: not there */
  bool closes_net;       /* seccomp is there */
  ruleset *made;         /* room for one a tool */
  size_t count;
  const ruleset **of_tool; /* NULL: not called yet */
} confinement;

#define CONFINE_NONE (-1)   /* nothing is to be put on */
#define CONFINE_FAILED (-2) /* errno says why */

/* Rulesets are made when a tool is first called; the first one is tried here. False: it could not be
 * made where Landlock is there; stderr says why. */
bool confinement_init(confinement *self, const serve_config *config, const char *temporary);
void confinement_deinit(confinement *self);

/* Tells the log what keeps programs in bounds here, and what does not. */
void confinement_say(const confinement *self, idem_log *log);
/* The tool's ruleset, which stays ours, or one of the two above. */
int confinement_rules(confinement *self, const tool_config *tool);
/* Whether the tool's programs get no sockets. */
bool confinement_closes_net(const confinement *self, const tool_config *tool);

/* In a child without a way to gain privileges: 0, or errno in it. Safe between fork and exec. */
int confine_files(int rules);
int confine_net(void);
/* confine_net.c: whether the filter was written for this machine. */
bool confine_knows_machine(void);

#endif
