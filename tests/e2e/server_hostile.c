/* server_hostile.c - a program that `idem serve` runs as a tool, and that does its worst: it hops from
 * process to process, grows a tree of them, or tries every door to the network. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(SYS_io_uring_setup)
#define SYS_io_uring_setup 425
#endif

/* Each process lives just long enough to start the next, in a session of its own. */
static int hop(void) {
  for (;;) {
    pid_t pid = fork();
    if (pid > 0) _exit(0);
    if (pid == 0) setsid();
  }
}

/* 121 processes that wait for their end, every other one in a session of its own. */
static void grow(void) {
  for (int depth = 0; depth < 4; depth++) {
    bool parent = true;
    for (int i = 0; i < 3 && parent; i++) {
      parent = fork() != 0;
      if (!parent && i % 2) setsid();
    }
    if (parent) break;
  }
  for (;;) pause();
}

/* A child grows the tree, and has time to. */
static int grow_and_leave(void) {
  if (fork() == 0) grow();
  usleep(50000);
  return 0;
}

static void try_socket(const char *name, int family, int type) {
  int fd = socket(family, type, 0);
  printf("%s: %s\n", name, fd >= 0 ? "open" : strerror(errno));
  if (fd >= 0) close(fd);
}

static int knock(void) {
  int pair[2];
  char parameters[256] = {0};
  try_socket("tcp", AF_INET, SOCK_STREAM);
  try_socket("udp", AF_INET, SOCK_DGRAM);
  try_socket("udp6", AF_INET6, SOCK_DGRAM);
  try_socket("unix", AF_UNIX, SOCK_STREAM);
  try_socket("netlink", AF_NETLINK, SOCK_RAW);
  try_socket("packet", AF_PACKET, SOCK_RAW);
  printf("ring: %s\n", syscall(SYS_io_uring_setup, 1, parameters) >= 0 ? "open" : strerror(errno));
  printf("pair: %s\n", socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 ? "open" : strerror(errno));
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "hop") == 0) return hop();
  if (strcmp(what, "grow") == 0) return grow_and_leave();
  if (strcmp(what, "knock") == 0) return knock();
  return 1;
}
