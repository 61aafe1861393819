/* secret_command.c - see secret_command.h. The command is the user's own, a password manager for
 * instance: it gets the whole environment and no bounds but time and size. No shell is involved. */
#include "secret_command.h"

#include <idem/program.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND_MS 10000u
#define KEPT_MAX 64u

/* ----------------------------------------------------------------- those run before */

typedef struct kept {
  struct kept *next;
  char *key;
  size_t len;
  char text[];
} kept;

/* Readings of the configuration follow one another, so nobody else touches it meanwhile. */
static kept *remembered;
static unsigned remembered_count;

/* Words cannot hold a newline and a NUL both: lengths keep them apart. */
static char *key_of(const char *const *argv, const char *folder) {
  char *key = NULL;
  size_t size = 0;
  FILE *text = open_memstream(&key, &size);
  if (!text) return NULL;
  fprintf(text, "%s", folder);
  for (size_t i = 0; argv[i]; i++) fprintf(text, "\n%zu %s", strlen(argv[i]), argv[i]);
  fclose(text);
  return key;
}

static bool recall(const char *key, char *text, size_t *len) {
  for (const kept *at = remembered; at; at = at->next) {
    if (strcmp(at->key, key) != 0) continue;
    memcpy(text, at->text, at->len);
    *len = at->len;
    return true;
  }
  return false;
}

/* Takes the key over. */
static void keep(char *key, const char *text, size_t len) {
  kept *made = remembered_count < KEPT_MAX ? malloc(sizeof *made + len) : NULL;
  if (!made) {
    free(key);
    return;
  }
  *made = (kept){.next = remembered, .key = key, .len = len};
  memcpy(made->text, text, len);
  remembered = made;
  remembered_count++;
}

/* -------------------------------------------------------------------------- running */

static bool refuse(char *why, size_t size, const char *sentence) {
  snprintf(why, size, "%s", sentence);
  return false;
}

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* A group of its own, so that all of it can be ended. */
static int start(const char *const *argv, const char *folder, int output, pid_t *pid) {
  return idem_program_start(
      &(idem_program){.argv = argv,
                      .folder = folder,
                      .files = {IDEM_FILE_NULL, output, IDEM_FILE_SAME, IDEM_FILE_SAME}},
      pid);
}

/* True: it has written all it had to. */
static bool read_all(int fd, uint64_t end, char *text, size_t *len, char *why, size_t size) {
  for (*len = 0;;) {
    uint64_t now = now_ms();
    struct pollfd input = {.fd = fd, .events = POLLIN};
    if (now >= end || poll(&input, 1, (int)(end - now)) == 0)
      return refuse(why, size, "took longer than 10 s");
    char byte;
    bool full = *len == SECRET_BYTES;
    ssize_t got = full ? read(fd, &byte, 1) : read(fd, text + *len, SECRET_BYTES - *len);
    if (got == 0) return true;
    if (got < 0 && errno != EINTR) return refuse(why, size, strerror(errno));
    if (got > 0 && full) return refuse(why, size, "printed more than 64 KiB");
    if (got > 0) *len += (size_t)got;
  }
}

/* A command may end its output long before itself. */
static bool wait_for_end(pid_t pid, uint64_t end, int *status, char *why, size_t size) {
  pid_t ended;
  while ((ended = waitpid(pid, status, WNOHANG)) == 0) {
    if (now_ms() >= end) return refuse(why, size, "took longer than 10 s");
    poll(NULL, 0, 5);
  }
  return ended == pid || refuse(why, size, "ended in a way that nobody told");
}

static bool run(const char *const *argv, const char *folder, char *text, size_t *len, char *why,
                size_t size) {
  uint64_t end = now_ms() + COMMAND_MS;
  int ends[2], status = 0;
  pid_t pid;
  if (pipe2(ends, O_CLOEXEC) != 0) return refuse(why, size, strerror(errno));
  int error = start(argv, folder, ends[1], &pid);
  close(ends[1]);
  bool whole = error ? refuse(why, size, strerror(error))
                     : read_all(ends[0], end, text, len, why, size) &&
                           wait_for_end(pid, end, &status, why, size);
  close(ends[0]);
  if (error) return false;
  if (!whole) {
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    return false;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  char how[64];
  idem_program_end_text(status, how, sizeof how);
  snprintf(why, size, "ended with %s", how);
  return false;
}

bool secret_command_known(const char *const *argv, const char *folder) {
  char *key = key_of(argv, folder);
  const kept *at = remembered;
  while (key && at && strcmp(at->key, key) != 0) at = at->next;
  free(key);
  return key && at;
}

bool secret_command(const char *const *argv, const char *folder, char *text, size_t *len, char *why,
                    size_t size) {
  char *key = key_of(argv, folder);
  if (!key) return refuse(why, size, "out of memory");
  if (recall(key, text, len)) {
    free(key);
    return true;
  }
  bool fine = run(argv, folder, text, len, why, size);
  if (fine)
    keep(key, text, *len);
  else
    free(key);
  return fine;
}
