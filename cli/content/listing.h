/* listing.h - the files of a folder that are served, as they are now: names and stamps, sorted. */
#ifndef IDEM_CLI_LISTING_H
#define IDEM_CLI_LISTING_H

#include "config/config.h"
#include "program/hidden.h"
#include "service/watch.h"

typedef struct listed_file {
  char *path; /* beneath the folder */
  file_stamp stamp;
} listed_file;

typedef struct file_list {
  listed_file *files;
  size_t count;
  size_t looked; /* entries seen, of every kind */
} file_list;

/* Without what is hidden. Every folder on the way is told to `see` (may be NULL) by its path beneath. False: no memory. */
bool listing_read(file_list *self, const resource_config *config, int folder,
                  const hidden_files *hidden, void (*see)(void *user, const char *path),
                  void *user);
void listing_free(file_list *self);

/* Whether a file of that name is served. */
bool listing_includes(const resource_config *config, const char *path);

#endif
