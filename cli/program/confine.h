/* confine.h - what a program may reach. Files by Landlock where the kernel has it: the system's
 * folders and the configuration's to read, a temporary folder a tool to write. No sockets and no runner on
 * other processes, by seccomp.
 * More where the configuration says so. */
#ifndef IDEM_CLI_CONFINE_H
#define IDEM_CLI_CONFINE_H

#include "config/config.h"
#include "hidden.h"
#include "order.h"
#include "scratch.h"

#define CONFINE_KEPT 64u /* rulesets at a time */
#define CONFINE_PATH 96u

#define CONFINE_NONE (-1) /* nothing is to be put on */

typedef struct tool_bounds {
  int rules; /* CONFINE_NONE: not made, or no longer kept */
  dev_t device;
  ino_t folder; /* the temporary folder that its rules name */
} tool_bounds;

typedef struct confinement {
  const serve_config *config;
  scratch_folder *temporary; /* each tool may write to a folder of its own in it */
  int abi;                   /* of Landlock; 0: not there */
  bool seals;                /* seccomp is there */
  bool trying;               /* whether rulesets can be made: none is to be used */
  tool_bounds *of_tool;
  hidden_files *hidden;
  size_t kept[CONFINE_KEPT]; /* whose they are, in a ring */
  size_t made;
} confinement;

/* Rulesets are made when a tool is first called; the first one is tried here. False: it could not be
 * made where Landlock is there; stderr says why. */
bool confinement_init(confinement *self, const serve_config *config, scratch_folder *temporary,
                      const char *const *own_files);
void confinement_deinit(confinement *self);

/* Whether every program may read it. */
bool confine_is_system(const char *path);

/* Tells the log what keeps programs in bounds here, and what does not; `briefly`: the latter alone. */
void confinement_say(const confinement *self, idem_log *log, bool briefly);
/* The same in one short line; false: no programs are run. */
#define CONFINE_BRIEF 256
bool confinement_brief(const confinement *self, char text[CONFINE_BRIEF]);

/* The bounds of one call. */
typedef struct call_bounds {
  char folder[CONFINE_PATH]; /* where its program may write; empty: there is no such place */
  int rules;                 /* CONFINE_NONE: none */
  bool own;                  /* both are this call's alone */
} call_bounds;

/* 0 or errno. Rules that are not its own stay ours and are there until the next call of this, or
 * one of the two above. */
int confinement_begin(confinement *self, const tool_config *tool, call_bounds *out);
/* After the order was given, or not: then its own folder goes. */
void confinement_ordered(call_bounds *bounds, bool given);
/* Which system calls the tool's programs cannot make. */
seal_level confinement_seal(const confinement *self, const tool_config *tool);

/* In a child without a way to gain privileges: 0, or errno in it. Safe between fork and exec. */
int confine_files(int rules);
int confine_calls(seal_level seal);
int confine_privileges(void);
/* confine_calls.c: whether the filters were written for this machine. */
bool confine_knows_machine(void);

#endif
