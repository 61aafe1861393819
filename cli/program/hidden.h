/* hidden.h - the files that no confined program reads, though they lie where it may read: those of
 * secrets and tokens. Landlock only allows, so what lies beside them is named one by one. */
#ifndef IDEM_CLI_HIDDEN_H
#define IDEM_CLI_HIDDEN_H

#include "config/config.h"

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

typedef struct hidden_files {
  char **paths; /* real ones */
  size_t count;
  listed_folder listed[HIDDEN_FOLDERS];
  size_t listed_count;
} hidden_files;

/* Those of the configuration, and the tokens' where there is one. False: no memory. */
bool hidden_init(hidden_files *self, const serve_config *config, const char *token_file);
void hidden_deinit(hidden_files *self);

/* Whether one of them is in there; a file that is named itself is not hidden. */
bool hidden_in(const hidden_files *self, const char *real);
/* Calls `allow` for the folder itself (`whole` false: its names alone) and for what lies beside the hidden
 * ones. False: `allow` did, or errno is E2BIG where it would be too many names. */
typedef bool (*hidden_allow_fn)(void *user, int fd, bool whole);
bool hidden_pass_by(hidden_files *self, const char *real, hidden_allow_fn allow, void *user);
/* Whether a listed folder has other names now: then what was allowed is out of date, and forgotten here. */
bool hidden_out_of_date(hidden_files *self);

#endif
