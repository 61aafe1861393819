/* child.c - see child.h. Lines are read byte by byte where it does not matter and by poll where time
 * does: tests may share a descriptor between calls without losing what was read ahead. */
#include "child.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 60000 /* tells what hangs from what is slow */
#define TEXT_MAX ((size_t)1 << 20)

static char text[TEXT_MAX];

uint64_t child_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* ------------------------------------------------------------------------ starting */

static void place(int fd, int at) {
  if (fd == CHILD_CLOSED) {
    close(at);
  } else if (dup2(fd, at) < 0) {
    _exit(126);
  }
}

static bool obeys_modes;

void child_obey_modes(bool obey) { obeys_modes = obey; }

static void become(const char *const *argv, int in, int out, int err) {
  signal(SIGINT, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  /* Fails for who is not root, and then there is nothing to give up. */
  if (obeys_modes) prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0);
  place(err, STDERR_FILENO);
  place(in, STDIN_FILENO);
  place(out, STDOUT_FILENO);
  execv(argv[0], (char *const *)(uintptr_t)argv);
  _exit(127);
}

/* The end the child gets, moved above 2 so that placing one does not destroy another. */
static int child_side(int wanted, const int pipe_ends[2], int which) {
  if (wanted == CHILD_CLOSED) return CHILD_CLOSED;
  int fd = fcntl(wanted == CHILD_PIPE ? pipe_ends[which] : wanted, F_DUPFD_CLOEXEC, 100);
  assert_true(fd >= 0);
  return fd;
}

child child_start_with(const char *const *argv, int in, int out) {
  int in_pipe[2] = {-1, -1}, out_pipe[2] = {-1, -1}, err_pipe[2];
  if (in == CHILD_PIPE) assert_int_equal(pipe2(in_pipe, O_CLOEXEC), 0);
  if (out == CHILD_PIPE) assert_int_equal(pipe2(out_pipe, O_CLOEXEC), 0);
  assert_int_equal(pipe2(err_pipe, O_CLOEXEC), 0);
  int sides[3] = {child_side(in, in_pipe, 0), child_side(out, out_pipe, 1),
                  child_side(CHILD_PIPE, err_pipe, 1)};
  child started = {.pid = fork(), .in = in_pipe[1], .out = out_pipe[0], .err = err_pipe[0]};
  if (started.pid == 0) become(argv, sides[0], sides[1], sides[2]);
  assert_true(started.pid > 0);
  for (int i = 0; i < 3; i++) {
    if (sides[i] >= 0) close(sides[i]);
  }
  if (in_pipe[0] >= 0) close(in_pipe[0]);
  if (out_pipe[1] >= 0) close(out_pipe[1]);
  close(err_pipe[1]);
  return started;
}

child child_start(const char *const *argv) {
  return child_start_with(argv, CHILD_PIPE, CHILD_PIPE);
}

/* ------------------------------------------------------------------------- talking */

void child_send(int fd, const char *message) {
  size_t len = strlen(message);
  while (len > 0) {
    ssize_t n = write(fd, message, len);
    assert_true(n > 0);
    message += n;
    len -= (size_t)n;
  }
}

static ssize_t read_in_time(int fd, char *into, size_t size, uint64_t until) {
  uint64_t now = child_now_ms();
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  if (now >= until || poll(&ready, 1, (int)(until - now)) <= 0) {
    fail_msg("nothing to read for %d ms", PATIENCE_MS);
  }
  ssize_t n = read(fd, into, size);
  return n < 0 && (errno == EIO || errno == ECONNRESET) ? 0 : n; /* a terminal's end is an error */
}

const char *child_line(int fd) {
  uint64_t until = child_now_ms() + PATIENCE_MS;
  size_t len = 0;
  while (len < TEXT_MAX - 1) {
    ssize_t n = read_in_time(fd, text + len, 1, until);
    if (n <= 0) fail_msg("end of input inside a line: \"%.*s\"", (int)len, text);
    if (text[len] == '\n') break;
    len++;
  }
  if (len > 0 && text[len - 1] == '\r') len--;
  text[len] = 0;
  return text;
}

const char *child_line_with(int fd, const char *wanted) {
  const char *line;
  do line = child_line(fd);
  while (!strstr(line, wanted));
  return line;
}

void child_expect_line(int fd, const char *expected) {
  assert_string_equal(child_line(fd), expected);
}

const char *child_rest(int fd) {
  uint64_t until = child_now_ms() + PATIENCE_MS;
  size_t len = 0;
  ssize_t n;
  while (len < TEXT_MAX - 1 && (n = read_in_time(fd, text + len, TEXT_MAX - 1 - len, until)) > 0) {
    len += (size_t)n;
  }
  text[len] = 0;
  return text;
}

/* -------------------------------------------------------------------------- ending */

static void close_pipe(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

static void wait_for_end(pid_t pid) {
  int watch = (int)syscall(SYS_pidfd_open, pid, 0);
  assert_true(watch >= 0);
  struct pollfd over = {.fd = watch, .events = POLLIN};
  int found = poll(&over, 1, PATIENCE_MS);
  close(watch);
  if (found == 1) return;
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  fail_msg("the program did not end");
}

int child_wait(child *running) {
  int status;
  wait_for_end(running->pid);
  assert_int_equal(waitpid(running->pid, &status, 0), running->pid);
  close_pipe(&running->in);
  close_pipe(&running->out);
  close_pipe(&running->err);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int child_end(child *running) {
  close_pipe(&running->in);
  return child_wait(running);
}

/* ------------------------------------------------------------------------ the rest */

long child_rss_kb(pid_t pid) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  long kb = -1;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "VmRSS:", 6) == 0) kb = atol(line + 6);
  }
  fclose(file);
  assert_true(kb > 0);
  return kb;
}

uint64_t child_cpu_ms(pid_t pid) {
  clockid_t clock;
  struct timespec had;
  assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
  assert_int_equal(clock_gettime(clock, &had), 0);
  return (uint64_t)had.tv_sec * 1000u + (uint64_t)had.tv_nsec / 1000000u;
}

static uint64_t waited_ns(const char *folder, const char *thread) {
  char path[300], line[128] = "";
  unsigned long long waited = 0;
  snprintf(path, sizeof path, "%s/%s/schedstat", folder, thread);
  FILE *file = fopen(path, "re");
  if (!file) return 0; /* it has ended */
  if (fgets(line, sizeof line, file)) sscanf(line, "%*u %llu", &waited);
  fclose(file);
  return waited;
}

uint64_t child_waited_ms(pid_t pid) {
  char folder[40];
  uint64_t waited = 0;
  snprintf(folder, sizeof folder, "/proc/%ld/task", (long)pid);
  DIR *threads = opendir(folder);
  assert_non_null(threads);
  for (struct dirent *one; (one = readdir(threads));)
    if (one->d_name[0] != '.') waited += waited_ns(folder, one->d_name);
  closedir(threads);
  return waited / 1000000u;
}

static int connect_unix(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  assert_true(strlen(path) < sizeof address.sun_path);
  memcpy(address.sun_path, path, strlen(path) + 1);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

static int connect_tcp(const char *url) {
  const char *colon = strrchr(url, ':');
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)atoi(colon + 1)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

int child_try_connect(const char *url) {
  return strncmp(url, "unix:", 5) == 0 ? connect_unix(url + 5) : connect_tcp(url);
}

int child_connect(const char *url) {
  int fd = child_try_connect(url);
  assert_true(fd >= 0);
  return fd;
}

void child_listening(const child *running, char *url, size_t size) {
  const char *line = child_line_with(running->err, "listening on ");
  int len = snprintf(url, size, "%s", strstr(line, "listening on ") + strlen("listening on "));
  assert_true(len > 0 && (size_t)len < size);
}

void child_make_folder(char *path, size_t size) {
  snprintf(path, size, "/tmp/idem-e2e-XXXXXX");
  assert_non_null(mkdtemp(path));
}

void child_remove_folder(const char *path) {
  DIR *folder = opendir(path);
  assert_non_null(folder);
  const struct dirent *entry;
  while ((entry = readdir(folder))) {
    char inside[512];
    if (unlinkat(dirfd(folder), entry->d_name, 0) == 0 || entry->d_name[0] == '.') continue;
    snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
    child_remove_folder(inside);
  }
  closedir(folder);
  assert_int_equal(rmdir(path), 0);
}

const char *child_node_flag(void) {
  child node = CHILD("/usr/bin/env", "node", "--experimental-websocket", "-e", "0");
  return child_end(&node) == 0 ? "--experimental-websocket" : "--no-warnings";
}

void child_make_certificate(const char *cert_file, const char *key_file, const char *name,
                            const char *names) {
  char subject[64], also[128];
  snprintf(subject, sizeof subject, "/CN=%s", name);
  snprintf(also, sizeof also, "subjectAltName=%s", names);
  child maker = CHILD("/usr/bin/env", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                      "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", subject,
                      "-addext", also, "-keyout", key_file, "-out", cert_file);
  int status = child_end(&maker);
  if (status != 0) fail_msg("openssl cannot make a certificate (is it installed?): %d", status);
}
