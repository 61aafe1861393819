/* serving.c - what `idem serve` costs, against limits measured in the same run: a program's call against
 * posix_spawn and wait, a query's against a tool in C, and its start with many tools.
 * serving IDEM REFERENCE FOLDER: the folder holds the configurations that bench/serve/run writes. */
#include "clock.h"
#include "server.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 15
#define PROGRAMS 60 /* a round */
#define QUERIES 4000
#define STARTS 30
#define WINDOW 64
#define REQUESTS 5000 /* more than a round asks */
#define ID_AT 22      /* of four digits, in a request */
#define PROGRAM "/bin/true"

static double now_us(void) { return now_ns() / 1e3; }

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
  qsort(values, count, sizeof *values, by_value);
  return values[count / 2];
}

/* --------------------------------------------------------------- servers */

static void send_bytes(const child *it, const char *bytes, size_t len) {
  if (write(it->in, bytes, len) != (ssize_t)len) die("the server does not read");
}

static void send_text(const child *it, const char *text) { send_bytes(it, text, strlen(text)); }

/* Counts the answers in one read. A fault ends the run: its rate would mean nothing. */
static size_t receive(const child *it) {
  static char buffer[(1 << 17) + 1];
  ssize_t n = read(it->out, buffer, sizeof buffer - 1);
  size_t lines = 0;
  buffer[n > 0 ? n : 0] = 0;
  if (n <= 0 || strstr(buffer, "rror\":")) {
    fprintf(stderr, "no answer but %s\n", buffer);
    exit(1);
  }
  for (ssize_t i = 0; i < n; i++) lines += buffer[i] == '\n';
  return lines;
}

static void ask(const child *it, const char *request) {
  send_text(it, request);
  while (receive(it) == 0) continue;
}

static const char hello[] =
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
    "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n";
static const char ready[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
#define CALL(tool, arguments)                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":1000,\"method\":\"tools/call\",\"params\":{\"name\":\"" tool        \
  "\",\"arguments\":" arguments "}}\n"

static child start_ready(char **command) {
  child it = start(command);
  ask(&it, hello);
  send_text(&it, ready);
  return it;
}

/* --------------------------------------------------------------- measures */

static double spawn_and_wait(void) {
  char *const argv[] = {"true", NULL}, *const environment[] = {"PATH=/usr/bin:/bin", NULL};
  pid_t pid;
  double began = now_us();
  if (posix_spawn(&pid, PROGRAM, NULL, NULL, argv, environment) != 0) die("posix_spawn");
  waitpid(pid, NULL, 0);
  return now_us() - began;
}

static double call_program(const child *it) {
  double began = now_us();
  ask(it, CALL("true", "{}"));
  return now_us() - began;
}

/* Microseconds of the middle ones. They take turns one by one: a machine that does other things, too,
 * has fast and slow moments that are longer than a program. */
static void time_programs(const child *it, double *limit, double *ours) {
  double limits[PROGRAMS], calls[PROGRAMS];
  for (size_t i = 0; i < PROGRAMS; i++) {
    limits[i] = spawn_and_wait();
    calls[i] = call_program(it);
  }
  *limit = median(limits, PROGRAMS);
  *ours = median(calls, PROGRAMS);
}

/* A request over and over, with ids from 1000 on: none is used twice in a round. */
static char *repeat(const char *request) {
  size_t len = strlen(request);
  char *many = malloc(REQUESTS * len + 1), digits[8];
  if (!many) die("malloc");
  for (size_t i = 0; i < REQUESTS; i++) {
    snprintf(digits, sizeof digits, "%zu", 1000 + i);
    memcpy(many + i * len, request, len + 1);
    memcpy(many + i * len + ID_AT, digits, 4);
  }
  return many;
}

/* Thousands a second. */
static double rate_of(const child *it, const char *request, size_t window) {
  size_t len = strlen(request), sent = 0, answered = 0;
  char *many = repeat(request);
  double began = now_us();
  while (answered < QUERIES) {
    size_t at = sent % REQUESTS, more = window - (sent - answered);
    if (more > REQUESTS - at) more = REQUESTS - at;
    send_bytes(it, many + at * len, more * len);
    sent += more;
    answered += receive(it);
  }
  double took = now_us() - began;
  while (answered < sent) answered += receive(it);
  free(many);
  return QUERIES / took * 1e3;
}

static double first_answer(char **command) {
  double began = now_us();
  child it = start(command);
  ask(&it, hello);
  double took = now_us() - began;
  stop(&it);
  return took / 1e3;
}

/* ----------------------------------------------------------------- report */

/* The medians count; the best round of each stands beside them. */
static void row(const char *name, double *limits, double *ours, double bound, bool rate) {
  double limit = median(limits, ROUNDS), middle = median(ours, ROUNDS); /* sorts them */
  double ratio = middle / limit;
  size_t best = rate ? ROUNDS - 1 : 0;
  printf("| %s | %.2f | %.2f | %.2f | %.2f | ", name, limit, middle, ratio,
         ours[best] / limits[best]);
  if (bound > 0)
    printf("%s %.2f | %s |\n", rate ? "at least" : "at most", bound,
           (rate ? ratio >= bound : ratio <= bound) ? "PASS" : "MISS");
  else
    printf("| |\n");
  fflush(stdout);
}

static void compare_programs(char **server) {
  double limits[ROUNDS], ours[ROUNDS];
  child it = start_ready(server);
  call_program(&it);
  for (int i = 0; i < ROUNDS; i++) time_programs(&it, &limits[i], &ours[i]);
  stop(&it);
  row("call of a program, us; limit posix_spawn and wait", limits, ours, 1.25, false);
}

static void compare_queries(char **reference, char **server, size_t window, const char *name) {
  double limits[ROUNDS], ours[ROUNDS];
  pin(window == 1);
  child echo = start_ready(reference), query = start_ready(server);
  for (int i = 0; i < ROUNDS; i++) {
    limits[i] = rate_of(&echo, CALL("echo", "{\"text\":\"hello, world\"}"), window);
    ours[i] = rate_of(&query, CALL("order", "{\"id\":4711}"), window);
  }
  stop(&echo);
  stop(&query);
  pin(false);
  row(name, limits, ours, window == 1 ? 0.5 : 0, true);
}

static void time_start(char **server) {
  double times[STARTS];
  for (int i = 0; i < STARTS; i++) times[i] = first_answer(server);
  double middle = median(times, STARTS), fastest = times[0];
  printf("| start to first answer with 500 tools, ms; best %.2f | | %.2f | | | at most 10.00 | "
         "%s |\n",
         fastest, middle, middle <= 10 ? "PASS" : "MISS");
}

/* An empty file is a database; one statement makes a table in it. */
static void make_database(char **server) {
  child it = start_ready(server);
  ask(&it, CALL("make", "{}"));
  stop(&it);
}

int main(int argc, char **argv) {
  if (argc != 4 || chdir(argv[3]) != 0) {
    fprintf(stderr, "usage: serving IDEM REFERENCE FOLDER\n");
    return 1;
  }
  signal(SIGPIPE, SIG_IGN);
  char *make[] = {argv[1], "serve", "make.json", NULL};
  char *small[] = {argv[1], "serve", "small.json", NULL};
  char *large[] = {argv[1], "serve", "large.json", NULL};
  char *reference[] = {argv[2], "--profile", "mcp", NULL};
  make_database(make);
  printf("| idem serve | limit | idem | ratio | of the best | bound | |\n"
         "|---|---|---|---|---|---|---|\n");
  compare_programs(small);
  compare_queries(reference, small, 1, "queries, one in flight, thousand/s; limit an echo in C");
  compare_queries(reference, small, WINDOW,
                  "queries, window of 64, thousand/s; limit an echo in C");
  time_start(large);
  return 0;
}
