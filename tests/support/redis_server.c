/* redis_server.c - starting and ending a Redis for a test. */
#include "support/redis_server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY "eady to accept connections"
#define WAIT_MS 60000

/* It goes with us, also when a test dies. */
static void become_server(const redis_server *self, int out) {
  const char *argv[REDIS_SERVER_ARGS + 20] = {
      "redis-server", "--dir",  self->folder, "--unixsocket",
      self->socket,   "--save", "",           "--daemonize",
      "no",           "--bind", "127.0.0.1",  "--enable-debug-command",
      "local"};
  size_t count = 13;
  bool port = false;
  for (size_t i = 0; self->more[i]; i++) {
    port = port || strcmp(self->more[i], "--port") == 0;
    argv[count++] = self->more[i];
  }
  if (!port) argv[count++] = "--port", argv[count++] = "0";
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(out, 1);
  dup2(out, 2);
  execvp(argv[0], (char *const *)argv);
  static const char missing[] = "there is no redis-server: run scripts/setup test\n";
  ssize_t n = write(2, missing, sizeof missing - 1);
  (void)n;
  _exit(127);
}

/* What it says before that goes to stderr if it never does. */
static bool wait_until_ready(const redis_server *self) {
  char text[16384];
  size_t len = 0;
  struct pollfd ready = {.fd = self->out, .events = POLLIN};
  while (len < sizeof text - 1 && poll(&ready, 1, WAIT_MS) > 0) {
    ssize_t n = read(self->out, text + len, sizeof text - 1 - len);
    if (n <= 0) break;
    len += (size_t)n;
    text[len] = 0;
    if (strstr(text, READY)) return true;
  }
  text[len] = 0;
  fprintf(stderr, "redis-server does not start: %s\n", text);
  return false;
}

bool redis_server_again(redis_server *self) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  self->pid = fork();
  if (self->pid == 0) become_server(self, ends[1]);
  close(ends[1]);
  self->out = ends[0];
  return self->pid > 0 && wait_until_ready(self);
}

bool redis_server_start(redis_server *self, const char *const *more) {
  *self = (redis_server){.out = -1};
  for (size_t i = 0; more && more[i] && i < REDIS_SERVER_ARGS - 1; i++) self->more[i] = more[i];
  strcpy(self->folder, "/tmp/idem-redis-XXXXXX");
  if (!mkdtemp(self->folder)) return false;
  snprintf(self->socket, sizeof self->socket, "%s/socket", self->folder);
  return redis_server_again(self);
}

void redis_server_kill(redis_server *self, int signal) {
  if (self->pid <= 0) return;
  kill(self->pid, signal);
  if (signal == SIGSTOP || signal == SIGCONT) return;
  waitpid(self->pid, NULL, 0);
  close(self->out);
  self->pid = 0;
}

static void remove_tree(const char *path) {
  DIR *folder = opendir(path);
  for (const struct dirent *entry; folder && (entry = readdir(folder));) {
    char inner[512];
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
    if (unlink(inner) != 0) remove_tree(inner);
  }
  if (folder) closedir(folder);
  rmdir(path);
}

void redis_server_stop(redis_server *self) {
  redis_server_kill(self, SIGKILL);
  remove_tree(self->folder);
}

unsigned redis_server_free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool found = bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
               getsockname(fd, (struct sockaddr *)&address, &size) == 0;
  close(fd);
  return found ? ntohs(address.sin_port) : 0;
}

static int connect_to(const redis_server *self) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, self->socket, sizeof self->socket);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

/* "$N", a line's end, N bytes and another: whether they are all there. */
static bool is_whole(const char *answer, size_t len) {
  const char *end = memchr(answer, '\n', len);
  if (!end || *answer != '$') return end;
  long bytes = strtol(answer + 1, NULL, 10);
  return bytes < 0 || len >= (size_t)(end - answer) + 1 + (size_t)bytes + 2;
}

const char *redis_server_ask(const redis_server *self, const char *command) {
  static char answer[8192];
  size_t len = 0;
  int fd = connect_to(self);
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  if (fd >= 0) dprintf(fd, "%s\r\n", command);
  while (fd >= 0 && len < sizeof answer - 1 && poll(&ready, 1, WAIT_MS) > 0) {
    ssize_t n = read(fd, answer + len, sizeof answer - 1 - len);
    if (n <= 0) break;
    len += (size_t)n;
    if (is_whole(answer, len)) break;
  }
  if (fd >= 0) close(fd);
  answer[len] = 0;
  if (*answer != '$' || !strchr(answer, '\n')) {
    answer[strcspn(answer, "\r\n")] = 0;
    return answer;
  }
  answer[len >= 2 ? len - 2 : len] = 0;
  return strchr(answer, '\n') ? strchr(answer, '\n') + 1 : "";
}
