/* crowd.c - see crowd.h. RLIMIT_NPROC counts all that a user runs, and does not hold for root; a cgroup must have
 * been handed to us. So a runner counts what came of its program: children of each thread, and theirs. */
#include "crowd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

typedef struct crowd {
  uint32_t count;
  uint32_t most;
  size_t waiting; /* processes whose threads are to be looked at */
  pid_t pids[CROWD_MOST + 1u];
} crowd;

static void add_listed(crowd *self, const char *list) {
  char *end;
  for (const char *at = list; *at && self->waiting <= CROWD_MOST; at = end + (*end == ' ')) {
    long pid = strtol(at, &end, 10);
    if (end == at) return;
    if (*end) self->pids[self->waiting++] = (pid_t)pid; /* one that is cut off is left out */
  }
}

static void add_children(crowd *self, const char *path) {
  static char list[65536];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return; /* it has ended */
  for (ssize_t got; (got = read(fd, list, sizeof list - 1)) > 0;) {
    list[got] = 0;
    add_listed(self, list);
    if (got < (ssize_t)sizeof list - 1) break;
  }
  close(fd);
}

static void add_threads(crowd *self, pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
  DIR *threads = opendir(path);
  const struct dirent *entry;
  if (!threads) return;
  while (self->count <= self->most && (entry = readdir(threads))) {
    if (entry->d_name[0] == '.') continue;
    char children[64];
    snprintf(children, sizeof children, "/proc/%ld/task/%.20s/children", (long)pid, entry->d_name);
    self->count++;
    add_children(self, children);
  }
  closedir(threads);
}

bool crowd_is_past(uint32_t most) {
  static crowd self;
  self.count = 0;
  self.waiting = 0;
  self.most = most < CROWD_MOST ? most : CROWD_MOST;
  add_children(&self, "/proc/thread-self/children");
  while (self.waiting && self.count <= self.most) add_threads(&self, self.pids[--self.waiting]);
  return self.count > self.most;
}
