/* server.h - a server under measurement: started with pipes for stdin and stdout, ended by closing them. */
#ifndef IDEM_BENCH_SERVER_H
#define IDEM_BENCH_SERVER_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct child {
  pid_t pid;
  int in, out; /* its stdin and stdout */
} child;

static void die(const char *what) {
  perror(what);
  exit(1);
}

/* Its log would be part of what is measured, and is not what is asked about. */
static void become(char **command, int in, int out) {
  int null = open("/dev/null", O_WRONLY);
  dup2(in, 0);
  dup2(out, 1);
  dup2(null, 2);
  execv(command[0], command);
  _exit(127);
}

static child start(char **command) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) die("pipe");
  child made = {.pid = fork(), .in = to[1], .out = from[0]};
  if (made.pid < 0) die("fork");
  if (made.pid == 0) become(command, to[0], from[1]);
  close(to[0]);
  close(from[1]);
  return made;
}

static void stop(child *it) {
  close(it->in);
  close(it->out);
  waitpid(it->pid, NULL, 0);
}

/* On one CPU a question and its answer are two switches and nothing else. */
static void pin(bool on) {
  static cpu_set_t all;
  static bool known;
  if (!known) sched_getaffinity(0, sizeof all, &all);
  known = true;
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  }
  sched_setaffinity(0, sizeof one, on ? &one : &all);
}

#endif
