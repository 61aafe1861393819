/* stdio.c - a server on stdio against the bare loop of bench/limit, in one run.
 * stdio [--tools-call] LIMIT SERVER [ARGUMENTS]: each figure is the median of five rounds, the two programs taking
 * turns, so that what else the machine does falls on both. */
#include "clock.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 5
#define PINGS 20000
#define PIPELINED 300000
#define REQUESTS 10000 /* different ones, sent over and over */
#define REQUEST_SIZE 384

static char requests[REQUESTS * REQUEST_SIZE];
static size_t starts[REQUESTS + 1];

static double now(void) { return now_ns() / 1e9; }

/* --------------------------------------------------------------- processes */

static void send_all(const child *it, const char *data, size_t len) {
  while (len) {
    ssize_t n = write(it->in, data, len);
    if (n < 0) die("the server does not read");
    data += n;
    len -= (size_t)n;
  }
}

/* Counts the answers in one read. */
static size_t receive(const child *it) {
  static char buffer[1 << 17];
  ssize_t n = read(it->out, buffer, sizeof buffer);
  if (n <= 0) {
    fprintf(stderr, "the server ended\n");
    exit(1);
  }
  size_t lines = 0;
  for (const char *at = buffer, *end = buffer + n; (at = memchr(at, '\n', (size_t)(end - at)));
       at++)
    lines++;
  return lines;
}

static void ask(const child *it, size_t number) {
  size_t i = number % REQUESTS;
  send_all(it, requests + starts[i], starts[i + 1] - starts[i]);
  while (receive(it) == 0) continue;
}

/* --------------------------------------------------------------- measures */

/* Milliseconds from fork to the first answer. */
static double first_answer(char **command) {
  double began = now();
  child it = start(command);
  ask(&it, 0);
  double took = now() - began;
  stop(&it);
  return took * 1e3;
}

/* KiB of resident memory of a server that has answered and waits. */
static double idle_memory(char **command) {
  child it = start(command);
  for (size_t i = 0; i < 100; i++) ask(&it, i);
  char path[64], line[256];
  long kib = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)it.pid);
  FILE *status = fopen(path, "r");
  if (!status) die(path);
  while (fgets(line, sizeof line, status)) {
    if (strncmp(line, "VmRSS:", 6) == 0) kib = strtol(line + 6, NULL, 10);
  }
  fclose(status);
  stop(&it);
  return (double)kib;
}

/* Thousands of answers a second. */
static double one_in_flight(char **command) {
  pin(true);
  child it = start(command);
  for (size_t i = 0; i < PINGS / 20; i++) ask(&it, i);
  double began = now();
  for (size_t i = 0; i < PINGS; i++) ask(&it, i);
  double took = now() - began;
  stop(&it);
  pin(false);
  return PINGS / took / 1e3;
}

/* As many whole requests as lie in one row and are wanted. */
static size_t row(size_t sent, size_t wanted) {
  size_t i = sent % REQUESTS;
  return wanted < REQUESTS - i ? wanted : REQUESTS - i;
}

static double windowed(char **command) {
  enum { WINDOW = 64 };
  child it = start(command);
  size_t sent = 0, answered = 0;
  double began = now();
  while (answered < PIPELINED) {
    size_t wanted = WINDOW - (sent - answered), left = PIPELINED - sent;
    size_t count = row(sent, wanted < left ? wanted : left), i = sent % REQUESTS;
    send_all(&it, requests + starts[i], starts[i + count] - starts[i]);
    sent += count;
    answered += receive(&it);
  }
  double took = now() - began;
  stop(&it);
  return PIPELINED / took / 1e3;
}

/* Writes what the pipe takes; true when the last request is out. */
static bool push(const child *it, size_t *sent, size_t *offset) {
  size_t i = *sent % REQUESTS, count = row(*sent, 512);
  if (count > PIPELINED - *sent) count = PIPELINED - *sent;
  ssize_t n =
      write(it->in, requests + starts[i] + *offset, starts[i + count] - starts[i] - *offset);
  if (n < 0 && errno == EAGAIN) return false;
  if (n < 0) die("write");
  *offset += (size_t)n;
  while (count-- && *offset >= starts[i + 1] - starts[i]) {
    *offset -= starts[i + 1] - starts[i];
    i++;
    ++*sent;
  }
  return *sent == PIPELINED;
}

static double pipelined(char **command) {
  child it = start(command);
  fcntl(it.in, F_SETFL, O_NONBLOCK);
  size_t sent = 0, offset = 0, answered = 0;
  bool pushing = true;
  double began = now();
  while (answered < PIPELINED) {
    struct pollfd both[2] = {{it.out, POLLIN, 0}, {pushing ? it.in : -1, POLLOUT, 0}};
    if (poll(both, 2, -1) < 0) die("poll");
    if (both[1].revents & POLLOUT) pushing = !push(&it, &sent, &offset);
    if (both[0].revents) answered += receive(&it);
  }
  double took = now() - began;
  stop(&it);
  return PIPELINED / took / 1e3;
}

/* ------------------------------------------------------------------ report */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values) {
  qsort(values, ROUNDS, sizeof *values, by_value);
  return values[ROUNDS / 2];
}

/* The better ratio is the larger one for rates and the smaller one for times. */
static void compare(const char *name, double (*measure)(char **), char **limit, char **server,
                    double bound, bool rate) {
  double limits[ROUNDS], servers[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    limits[i] = measure(limit);
    servers[i] = measure(server);
  }
  double a = median(limits), b = median(servers), ratio = b / a;
  printf("| %s | %.2f | %.2f | %.2f | %s %.2f | %s |\n", name, a, b, ratio,
         rate ? "at least" : "at most", bound,
         (rate ? ratio >= bound : ratio <= bound) ? "PASS" : "MISS");
  fflush(stdout);
}

static void compare_memory(char **limit, char **server) {
  double a = idle_memory(limit), b = idle_memory(server);
  printf("| idle memory, KiB | %.0f | %.0f | %.2f | at most 3072 KiB | %s |\n", a, b, b / a,
         b <= 3072 ? "PASS" : "MISS");
}

static const char echo[] = "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"echo\",\"params\":{"
                           "\"name\":\"x\",\"text\":\"hello, world hello, world hel\"}}\n";
/* As 2026-07-28 wants it: each request says who asks and in which revision. */
static const char tools_call[] =
    "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\","
    "\"arguments\":{\"text\":\"hello, world\"},\"_meta\":{"
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
    "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"bench\",\"version\":\"1\"},"
    "\"io.modelcontextprotocol/clientCapabilities\":{}}}}\n";

static void make_requests(bool tools) {
  char *at = requests;
  for (size_t i = 0; i < REQUESTS; i++) {
    starts[i] = (size_t)(at - requests);
    at += tools ? snprintf(at, REQUEST_SIZE, tools_call, i) : snprintf(at, REQUEST_SIZE, echo, i);
  }
  starts[REQUESTS] = (size_t)(at - requests);
}

int main(int argc, char **argv) {
  bool tools = argc > 1 && strcmp(argv[1], "--tools-call") == 0;
  argc -= tools;
  argv += tools;
  if (argc < 3) {
    fprintf(stderr, "usage: stdio [--tools-call] LIMIT SERVER [ARGUMENTS]\n");
    return 1;
  }
  signal(SIGPIPE, SIG_IGN);
  make_requests(tools);
  char *limit[] = {argv[1], NULL}, **server = argv + 2;
  printf("| stdio | limit | idem | ratio | bound | |\n|---|---|---|---|---|---|\n");
  if (tools) {
    compare("tools/call pipelined, thousand/s", pipelined, limit, server, 0.5, true);
    return 0;
  }
  compare("one in flight on one CPU, thousand/s", one_in_flight, limit, server, 0.85, true);
  compare("pipelined, thousand/s", pipelined, limit, server, 0.7, true);
  compare("window of 64, thousand/s", windowed, limit, server, 0.7, true);
  compare("start to first answer, ms", first_answer, limit, server, 1.5, false);
  compare_memory(limit, server);
  return 0;
}
