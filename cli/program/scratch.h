/* scratch.h - temporary folders: the server's own, in which each tool has one, and their removal with
 * everything that programs left in them. */
#ifndef IDEM_CLI_SCRATCH_H
#define IDEM_CLI_SCRATCH_H

#define SCRATCH_PATH 64u

typedef struct scratch_folder {
  char path[SCRATCH_PATH]; /* empty: there is none */
  unsigned moves;          /* how often it got a new path */
} scratch_folder;

/* In TMPDIR or /tmp, for this user alone. */
void scratch_make(scratch_folder *self);
/* A descriptor of it, to be closed, by which it can only be named. One that is gone is made again; where
 * something else is in its place, which may be anyone's, it moves. -1: errno. */
int scratch_open(scratch_folder *self);
/* The same of one inside, made where there is none. */
int scratch_open_inside(int folder, const char *name);

/* Nobody may be at work in it any more. Links are removed, not followed; another user's is left alone. */
void scratch_remove(const char *path);

#endif
