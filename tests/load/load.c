/* load.c - many clients at once: connections that rest, streams that wait, requests meanwhile, and
 * clients that die. Counts what each costs the server in memory, and what is left when they have
 * gone. `load SERVER IDLE STREAMS SECONDS [whole]` with SERVER an idem-reference; see docs/internals/tests.md.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define IDLE_BOUND 2048
#define STREAM_BOUND 4096
#define LEFT_PART 10      /* of what a crowd took, nine tenths come back; */
#define LEFT_MIN_KB 1024  /* what is kept for the next one may be this much */
#define LEAK_BOUND_KB 256 /* more than after the first that died, once others have */
#define COMMIT_S 15       /* after which a waiting answer becomes a stream */
#define NOTICE_S 40       /* two comments and some */
#define PER_PROCESS 4000
#define PROCESSES_MAX 16
#define BUSY 16
#define SAMPLES_MAX 2000000

#define HEAD                                                                                       \
  "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"                       \
  "Accept: application/json, text/event-stream\r\n"
static const char echo_request[] =
    HEAD "Content-Length: 60\r\n\r\n"
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[\"hello\"] }";
static const char sleep_request[] =
    HEAD "Content-Length: 64\r\n\r\n"
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sleep\",\"params\":{\"ms\":600000}}";
static const char half_request[] =
    HEAD "Content-Length: 60000\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1";

static pid_t server;
static uint16_t port;
static bool failed;
/* The whole form waits until pending answers have become streams, and until the server finds out, by
 * the next comment, that nobody reads them. In the short form clients end with a reset. */
static bool whole;

/* ------------------------------------------------------------------- basics */

__attribute__((format(printf, 1, 2))) static void die(const char *format, ...) {
  va_list list;
  va_start(list, format);
  fputs("load: ", stderr);
  vfprintf(stderr, format, list);
  va_end(list);
  fprintf(stderr, " (%s)\n", strerror(errno));
  if (server > 0) kill(server, SIGKILL);
  exit(1);
}

static void expect(bool good, const char *what) {
  if (good) return;
  printf("  FAILED: %s\n", what);
  failed = true;
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void raise_limit(rlim_t wanted) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  if (limit.rlim_max < wanted) limit.rlim_max = wanted; /* root may */
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    die("%lu open files are needed; raise the limit (ulimit -n)", (unsigned long)wanted);
}

/* ------------------------------------------------------------------- server */

/* Its log goes to a file, so that nothing it says can make it wait for us. */
static void find_port(FILE *log) {
  char line[512];
  for (int i = 0; i < 1000; i++) {
    rewind(log);
    while (fgets(line, sizeof line, log)) {
      const char *at = strstr(line, "listening on http://127.0.0.1:");
      if (at) port = (uint16_t)strtoul(at + strlen("listening on http://127.0.0.1:"), NULL, 10);
    }
    if (port) return;
    if (waitpid(server, NULL, WNOHANG) == server) break;
    poll(NULL, 0, 10);
  }
  die("the server does not listen");
}

static void start_server(const char *path) {
  FILE *log = tmpfile();
  if (!log) die("no file for the server's log");
  server = fork();
  if (server == 0) {
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(fileno(log), 2);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(path, path, "--http", "127.0.0.1:0", "--max-connections", "100000", (char *)NULL);
    _exit(127);
  }
  if (server < 0) die("no process for the server");
  find_port(log);
  fclose(log);
}

static long memory_kb(void) {
  char path[64], line[256];
  long kb = -1;
  snprintf(path, sizeof path, "/proc/%d/status", (int)server);
  FILE *file = fopen(path, "r");
  if (!file) die("the server is gone");
  while (fgets(line, sizeof line, file))
    if (strncmp(line, "RssAnon:", 8) == 0) kb = strtol(line + 8, NULL, 10);
  fclose(file);
  return kb;
}

static long open_files(void) {
  char path[64];
  long count = 0;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)server);
  DIR *folder = opendir(path);
  if (!folder) die("the server is gone");
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

/* Nobody tells us when the server has noticed; so we look, and wait between looks. */
static bool files_return_to(long count) {
  for (int i = 0; i < NOTICE_S * 100; i++) {
    if (open_files() == count) return true;
    poll(NULL, 0, 10);
  }
  printf("  %ld descriptors, wanted %ld\n", open_files(), count);
  return false;
}

/* ------------------------------------------------------------------ clients */

/* Each process of clients has an address of its own: ports do not run short. */
static int connect_from(unsigned address) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  struct sockaddr_in from = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(0x7f000100u + address)};
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0) die("no socket");
#ifdef IP_BIND_ADDRESS_NO_PORT
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
#endif
  if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0) die("bind");
  if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) die("connect");
  return fd;
}

static void put(int fd, const char *text, size_t len) {
  if (send(fd, text, len, MSG_NOSIGNAL) != (ssize_t)len) die("send");
}

/* Reads until what is wanted has come. */
static size_t read_until(int fd, const char *wanted) {
  char text[4096];
  size_t len = 0;
  while (len + 1 < sizeof text) {
    ssize_t n = recv(fd, text + len, sizeof text - 1 - len, 0);
    if (n <= 0) die("an answer did not come");
    len += (size_t)n;
    text[len] = 0;
    if (strstr(text, wanted)) return len;
  }
  die("an answer is too long");
  return 0;
}

typedef enum kind { IDLE, STREAM, HALF } kind;

static void open_client(kind what, unsigned address) {
  int fd = connect_from(address);
  static const struct linger reset = {1, 0};
  if (!whole) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  if (what == HALF) {
    put(fd, half_request, sizeof half_request - 1);
  } else if (what == STREAM) {
    put(fd, sleep_request, sizeof sleep_request - 1);
  } else {
    put(fd, echo_request, sizeof echo_request - 1);
    read_until(fd, "[\"hello\"]}");
  }
}

typedef struct crowd {
  pid_t pids[PROCESSES_MAX];
  unsigned count;
} crowd;

static void run_clients(kind what, unsigned count, unsigned address, int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  server = 0; /* not ours to end */
  while (count--) open_client(what, address);
  if (write(ready, "r", 1) != 1) _exit(1);
  for (;;) pause();
}

/* Returns when all are there. */
static void gather(crowd *who, kind what, unsigned count) {
  static unsigned address;
  int ready[2];
  char byte;
  if (pipe(ready) != 0) die("pipe");
  who->count = 0;
  while (count) {
    unsigned part = count < PER_PROCESS ? count : PER_PROCESS;
    if (who->count == PROCESSES_MAX) die("too many clients");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) run_clients(what, part, ++address, ready[1]);
    if (pid < 0) die("fork");
    address++;
    who->pids[who->count++] = pid;
    count -= part;
  }
  close(ready[1]);
  for (unsigned i = 0; i < who->count; i++)
    if (read(ready[0], &byte, 1) != 1) die("clients could not be opened");
  close(ready[0]);
}

static void dismiss(crowd *who, int how) {
  for (unsigned i = 0; i < who->count; i++) kill(who->pids[i], how);
  for (unsigned i = 0; i < who->count; i++) waitpid(who->pids[i], NULL, 0);
  who->count = 0;
}

/* The server has taken in all that the kernel holds for it: it answers what comes last. */
static void settle(long files) {
  expect(files_return_to(files), "the server holds one descriptor for each client");
  int fd = connect_from(250);
  put(fd, echo_request, sizeof echo_request - 1);
  read_until(fd, "[\"hello\"]}");
  close(fd);
  files_return_to(files);
}

/* ---------------------------------------------------------------- requests */

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

typedef struct busy {
  uint64_t sent_ns;
  size_t got;
} busy;

static void ask(struct pollfd *at, busy *one) {
  one->got = 0;
  one->sent_ns = now_ns();
  put(at->fd, echo_request, sizeof echo_request - 1);
}

/* All answers are alike, so that their length tells where one ends. */
static bool answered(const struct pollfd *at, busy *one, size_t answer_len) {
  char text[4096];
  ssize_t n = recv(at->fd, text, sizeof text, MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN)) die("a connection was lost");
  if (n > 0) one->got += (size_t)n;
  return one->got == answer_len;
}

static void ask_for(unsigned seconds) {
  struct pollfd at[BUSY];
  busy of[BUSY];
  uint64_t *took = malloc(SAMPLES_MAX * sizeof *took), start = now_ns();
  size_t count = 0, answer_len = 0;
  if (!took) die("no memory");
  for (int i = 0; i < BUSY; i++) {
    at[i] = (struct pollfd){connect_from(251), POLLIN, 0};
    ask(&at[i], &of[i]);
    answer_len = read_until(at[i].fd, "[\"hello\"]}");
    ask(&at[i], &of[i]);
  }
  while (now_ns() - start < (uint64_t)seconds * 1000000000u && count < SAMPLES_MAX - BUSY) {
    if (poll(at, BUSY, 60000) <= 0) die("no answers");
    for (int i = 0; i < BUSY; i++) {
      if (!(at[i].revents & POLLIN) || !answered(&at[i], &of[i], answer_len)) continue;
      took[count++] = now_ns() - of[i].sent_ns;
      ask(&at[i], &of[i]);
    }
  }
  double spent = (double)(now_ns() - start) / 1e9;
  for (int i = 0; i < BUSY; i++) close(at[i].fd);
  qsort(took, count, sizeof *took, compare);
  uint64_t p50 = took[count / 2], p99 = took[count * 99 / 100];
  printf("requests meanwhile: %.0f/s on %d connections, p50 %.0f us, p99 %.0f us\n",
         (double)count / spent, BUSY, (double)p50 / 1e3, (double)p99 / 1e3);
  expect(count > 100, "requests are answered while others wait");
  free(took);
}

/* -------------------------------------------------------------------- story */

static long report_each(const char *what, unsigned count, long kb_before, long bound) {
  long kb = memory_kb(), each = (kb - kb_before) * 1024 / (long)count;
  printf("%u %s: %ld bytes each (bound %ld)\n", count, what, each, bound);
  expect(each <= bound, "the bound holds");
  return kb;
}

static void report_left(long kb_before, long kb_most) {
  long left = memory_kb() - kb_before, bound = (kb_most - kb_before) / LEFT_PART;
  if (bound < LEFT_MIN_KB) bound = LEFT_MIN_KB;
  printf("after they have gone: %+ld KiB of %ld (bound %ld)\n", left, kb_most - kb_before, bound);
  expect(left <= bound, "memory returns to where it was");
}

static void crowd_comes_and_goes(unsigned idle, unsigned streams, unsigned seconds) {
  crowd resting, waiting;
  long files = open_files(), kb = memory_kb(), before = kb;
  gather(&resting, IDLE, idle);
  settle(files + (long)idle);
  kb = report_each("idle connections", idle, kb, IDLE_BOUND);
  gather(&waiting, STREAM, streams);
  settle(files + (long)idle + (long)streams);
  if (whole) poll(NULL, 0, (COMMIT_S + 2) * 1000);
  long most = report_each(whole ? "event streams" : "answers that are waited for", streams, kb,
                          STREAM_BOUND);
  ask_for(seconds);
  dismiss(&resting, SIGTERM);
  dismiss(&waiting, SIGTERM);
  expect(files_return_to(files), "all descriptors are given back");
  settle(files);
  report_left(before, most);
}

/* Twice, since the first time shows what is kept for the next clients, and the second what leaks. */
static void clients_die(unsigned count) {
  crowd half, waiting;
  long files = open_files(), before = 0;
  for (int round = 0; round < 2; round++) {
    before = memory_kb();
    gather(&half, HALF, count);
    gather(&waiting, STREAM, count);
    settle(files + 2 * (long)count);
    if (whole) poll(NULL, 0, (COMMIT_S + 2) * 1000);
    dismiss(&half, SIGKILL);
    dismiss(&waiting, SIGKILL);
    expect(files_return_to(files), "the descriptors of the dead are given back");
    settle(files);
  }
  printf("%u more killed in a body and %u in a stream: %+ld KiB (bound %d)\n", count, count,
         memory_kb() - before, LEAK_BOUND_KB);
  expect(memory_kb() - before <= LEAK_BOUND_KB, "the dead leave no memory behind");
}

static unsigned number(const char *text) {
  char *end;
  unsigned long value = strtoul(text, &end, 10);
  if (*end || !value || value > 50000) die("%s is no number of clients", text);
  return (unsigned)value;
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fputs("usage: load SERVER IDLE STREAMS SECONDS [whole]\n", stderr);
    return 2;
  }
  unsigned idle = number(argv[2]), streams = number(argv[3]), seconds = number(argv[4]);
  whole = argc > 5 && strcmp(argv[5], "whole") == 0;
  raise_limit(idle + streams + 200);
  start_server(argv[1]);
  long files = open_files();
  settle(files);
  crowd_comes_and_goes(idle, streams, seconds);
  clients_die(streams / 4 + 1);
  kill(server, SIGTERM);
  int status = 0;
  waitpid(server, &status, 0);
  server = 0;
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the server ends with 0");
  return failed;
}
