/* scratch.c - see scratch.h. Programs leave folders behind that nobody may write to or even look into (some
 * package caches are made so); these are opened first, one level of them a round. */
#include "scratch.h"

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTORS 8
#define ROUNDS 32 /* folders without a right inside each other; deeper ones stay */

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where) {
  (void)about, (void)kind, (void)where;
  remove(path);
  return 0;
}

static int open_folder(const char *path, const struct stat *about, int kind, struct FTW *where) {
  (void)where;
  bool is_folder = kind == FTW_D || kind == FTW_DNR;
  if (is_folder && (about->st_mode & S_IRWXU) != S_IRWXU) chmod(path, S_IRWXU);
  return 0;
}

void scratch_remove(const char *path) {
  for (int round = 0; round < ROUNDS; round++) {
    nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
    if (access(path, F_OK) != 0) return;
    nftw(path, open_folder, DESCRIPTORS, FTW_PHYS);
  }
}
