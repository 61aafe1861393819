/* trail.c - the way a path takes: through each folder that holds a part of it, and each that holds a link
 * which stands for one. Who may write one of those decides where the path leads. */
#include "bounds.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINKS_MAX 40u /* as the kernel's */

typedef struct trail {
  char here[PATH_MAX]; /* without links; "" is the root */
  char rest[PATH_MAX];
} trail;

static bool begin(trail *self, const char *path) {
  self->here[0] = 0;
  if (path[0] != '/' && !getcwd(self->here, sizeof self->here)) return false;
  return snprintf(self->rest, sizeof self->rest, "%s", path) < (int)sizeof self->rest;
}

/* False: there is none. */
static bool next_part(trail *self, char name[PATH_MAX]) {
  char *at = self->rest + strspn(self->rest, "/");
  size_t len = strcspn(at, "/");
  memcpy(name, at, len);
  name[len] = 0;
  memmove(self->rest, at + len, strlen(at + len) + 1);
  return len > 0;
}

static bool is_dots(trail *self, const char *name) {
  if (strcmp(name, ".") == 0) return true;
  if (strcmp(name, "..") != 0) return false;
  char *slash = strrchr(self->here, '/');
  if (slash) *slash = 0;
  return true;
}

static bool follow(trail *self, const char *link) {
  char rest[PATH_MAX];
  if (snprintf(rest, sizeof rest, "%s%s", link, self->rest) >= (int)sizeof rest) return false;
  memcpy(self->rest, rest, sizeof rest);
  if (link[0] == '/') self->here[0] = 0;
  return true;
}

/* Into `part`, or where it leads. False: it is too long. */
static bool walk_on(trail *self, const char *part, unsigned *links) {
  char link[PATH_MAX];
  ssize_t len = readlink(part, link, sizeof link - 1);
  if (len < 0) return snprintf(self->here, sizeof self->here, "%s", part) < (int)sizeof self->here;
  link[len] = 0;
  return ++*links <= LINKS_MAX && follow(self, link);
}

/* What cannot be followed to its end counts. */
bool bounds_on_way(const char *path, const char *folder) {
  char name[PATH_MAX], part[2 * PATH_MAX], real[PATH_MAX];
  trail way;
  unsigned links = 0;
  if (!path || !folder) return false;
  const char *within = realpath(folder, real) ? real : folder;
  if (bounds_beneath(path, within) || !begin(&way, path)) return true;
  while (next_part(&way, name)) {
    if (is_dots(&way, name)) continue;
    snprintf(part, sizeof part, "%s/%s", way.here, name);
    if (bounds_beneath(part, within) || !walk_on(&way, part, &links)) return true;
  }
  return false;
}
