/* hidden.h - the files that no confined program reads and no resource serves, though they lie where that is
 * allowed: those of secrets and tokens, and of a server run as root the system's own, such as /etc/shadow.
 * Landlock only allows, so what lies beside them is named one by one. */
#ifndef IDEM_CLI_HIDDEN_H
#define IDEM_CLI_HIDDEN_H

#include "config/config.h"

#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#define HIDDEN_BESIDE 2048u /* names in one ruleset, each of which costs every start of a program */
#define HIDDEN_FOLDERS 32u

/* A folder whose names were read, and when it had last changed. */
typedef struct listed_folder {
  char *path;
  struct timespec changed;
  dev_t device;
  ino_t number;
} listed_folder;

typedef struct file_identity {
  dev_t device;
  ino_t number;
} file_identity;

typedef struct hidden_files {
  char **names; /* absolute, as they were named: links on the way may be turned */
  char **paths; /* where they lead by now */
  size_t count;
  size_t
      named; /* the first ones: by the configuration and the command line; the others are the system's */
  bool gave_up; /* the system's, since there are too many names beside them */
  listed_folder listed[HIDDEN_FOLDERS];
  size_t listed_count;
} hidden_files;

/* Those of the configuration, and the tokens' where there is one. False: no memory. */
bool hidden_init(hidden_files *self, const serve_config *config, const char *const *own_files);
void hidden_deinit(hidden_files *self);

/* Whether the configuration and the command line name the same. */
bool hidden_same(const hidden_files *self, const hidden_files *other);
/* Whether one of them is in there; a file that is named itself is not hidden. `writable`: who may write there has
 * been given the system's. */
bool hidden_in(const hidden_files *self, const char *real, bool writable);
/* Gives the system's up; false: there are none. */
bool hidden_give_up(hidden_files *self);

/* What the files are at a moment, on any thread. */
typedef struct hidden_moment {
  const hidden_files *files;
  file_identity *identities; /* NULL: no memory, and everything is hidden */
} hidden_moment;
hidden_moment hidden_look(const hidden_files *self);
void hidden_moment_free(hidden_moment *self);
/* Whether an open file is one of them, by whatever name, or is called so; `real` may be NULL. */
bool hidden_is(const hidden_moment *self, const struct stat *about, const char *real);
/* Calls `allow` for the folder itself (`whole` false: its names alone) and for what lies beside the hidden
 * ones. False: `allow` did, or errno is E2BIG where it would be too many names. Without `allow` they are only
 * counted, which opens none of them. */
typedef bool (*hidden_allow_fn)(void *user, int fd, bool whole);
bool hidden_pass_by(hidden_files *self, const char *real, hidden_allow_fn allow, void *user);
/* Whether a listed folder has other names now, or a file is somewhere else: then what was allowed is out of
 * date, and forgotten here. On the loop. */
bool hidden_out_of_date(hidden_files *self);

#endif
