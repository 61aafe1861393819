/* server_hostile.c - a program that `idem serve` runs as a tool, and that does its worst: it hops from
 * process to process, grows a tree of them, tries every door to the network, or lays its hand on another
 * process. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#if !defined(SYS_io_uring_setup)
#define SYS_io_uring_setup 425
#endif
#define PROCESS_MADVISE 440
#define PIDFD_OPEN 434
#define X32 0x40000000L

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

static void tell(const char *name, long result) {
  printf("%s: %s\n", name, result >= 0 ? "open" : strerror(errno));
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
  tell("packets pair", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
  tell("datagram pair", socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair));
  tell("raw pair", socketpair(AF_UNIX, SOCK_RAW, 0, pair));
  return 0;
}

/* ------------------------------------------------------------------ other processes */

static uint64_t cpus[128];
static uint32_t attributes[14] = {sizeof attributes};
static int32_t parameter;

/* Each sets what is there already, so that it does no harm where it works. */
static void grab_by_number(pid_t pid) {
  struct rlimit limit;
  unsigned long nodes = 1;
  long held = syscall(SYS_sched_getaffinity, pid, sizeof cpus, cpus);
  long policy = syscall(SYS_sched_getscheduler, pid);
  int nice = getpriority(PRIO_PROCESS, (id_t)pid);
  tell("read limits", prlimit(pid, RLIMIT_CPU, NULL, &limit));
  tell("limits", prlimit(pid, RLIMIT_CPU, &limit, NULL));
  tell("limits both ways", prlimit(pid, RLIMIT_CPU, &limit, &limit));
  tell("priority", setpriority(PRIO_PROCESS, (id_t)pid, nice));
  tell("group's priority", setpriority(PRIO_PGRP, pid ? (id_t)getpgid(pid) : 0, nice));
  tell("read affinity", held);
  tell("affinity", syscall(SYS_sched_setaffinity, pid, held, cpus));
  tell("scheduler", syscall(SYS_sched_setscheduler, pid, policy, &parameter));
  tell("parameters", syscall(SYS_sched_setparam, pid, &parameter));
  tell("read attributes", syscall(SYS_sched_getattr, pid, attributes, sizeof attributes, 0));
  tell("attributes", syscall(SYS_sched_setattr, pid, attributes, 0));
  tell("input and output", syscall(SYS_ioprio_set, 1, pid, 4 | 2 << 13));
  tell("migrate", syscall(SYS_migrate_pages, pid, 64L, &nodes, &nodes));
  tell("move", syscall(SYS_move_pages, pid, 0L, NULL, NULL, NULL, 0));
}

/* By user, by descriptor, by file: there is no number 0 for these. */
static void grab_otherwise(pid_t pid) {
  char path[64];
  int fd = (int)syscall(PIDFD_OPEN, pid, 0);
  struct {
    void *base;
    size_t len;
  } none = {NULL, 0};
  tell("user's priority", setpriority(PRIO_USER, 0, getpriority(PRIO_PROCESS, 0)));
  tell("user's input and output", syscall(SYS_ioprio_set, 3, getuid(), 4 | 2 << 13));
  tell("advice", syscall(PROCESS_MADVISE, fd, &none, 1L, 20, 0));
  snprintf(path, sizeof path, "/proc/%ld/oom_score_adj", (long)pid);
  tell("out of memory score", open(path, O_WRONLY | O_CLOEXEC));
  snprintf(path, sizeof path, "/proc/%ld/mem", (long)pid);
  tell("memory", open(path, O_RDWR | O_CLOEXEC));
  snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
  tell("environment", open(path, O_RDONLY | O_CLOEXEC));
  tell("machine", syscall(SYS_sethostname, "", -1L)); /* EINVAL to those who may */
}

#if defined(__x86_64__)
static sigjmp_buf no_such_door;
static void on_fault(int number) { siglongjmp(no_such_door, number); }

/* The call of a 32-bit program; addresses do not fit, so NULL has to do. */
static long call_32(long number, long first, long second, long third) {
  long result;
  __asm__ volatile("int $0x80"
                   : "=a"(result)
                   : "a"(number), "b"(first), "c"(second), "d"(third)
                   : "memory", "r8", "r9", "r10", "r11");
  if (result >= 0) return result;
  errno = (int)-result;
  return -1;
}

static void grab_by_other_numbers(pid_t pid) {
  tell("x32", syscall(SYS_setpriority | X32, PRIO_PROCESS, pid, 0));
  signal(SIGSEGV, on_fault);
  if (sigsetjmp(no_such_door, 1)) {
    puts("i386: not there");
    return;
  }
  tell("i386 limits", call_32(340, pid, RLIMIT_CPU, 8));
  tell("i386 priority", call_32(97, PRIO_PROCESS, pid, getpriority(PRIO_PROCESS, (id_t)pid)));
  tell("i386 own priority", call_32(97, PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)));
  tell("i386 affinity", call_32(241, pid, 0, 0));
  tell("i386 queue", call_32(399, IPC_PRIVATE, 0600, 0));
  tell("i386 ipc", call_32(117, 13, IPC_PRIVATE, 0600));
}
#else
static void grab_by_other_numbers(pid_t pid) { (void)pid; }
#endif

static int grab(pid_t pid) {
  grab_by_number(pid);
  if (pid) grab_otherwise(pid);
  if (pid) grab_by_other_numbers(pid);
  return 0;
}

/* ------------------------------------------------------------- what outlives a call */

static int leave_behind(void) {
  int number = 0, file = open("held", O_RDONLY | O_CLOEXEC);
  tell("memory", number = shmget(IPC_PRIVATE, 4096, 0600));
  if (number >= 0) shmctl(number, IPC_RMID, NULL);
  tell("queue", number = msgget(IPC_PRIVATE, 0600));
  if (number >= 0) msgctl(number, IPC_RMID, NULL);
  tell("semaphores", number = semget(IPC_PRIVATE, 1, 0600));
  if (number >= 0) semctl(number, 0, IPC_RMID);
  tell("named queue", mq_open("/idem-left-behind", O_CREAT | O_RDWR, 0600, NULL));
  mq_unlink("/idem-left-behind");
  tell("keys", syscall(SYS_keyctl, 0, -3, 0)); /* the id of the session's keyring */
  tell("attribute", setxattr("held", "user.idem", "x", 1, 0));
  tell("attribute by descriptor", fsetxattr(file, "user.idem", "x", 1, 0));
  unsigned long flags = 0;
  tell("read flags", ioctl(file, 0x80086601UL, &flags));
  tell("flags", ioctl(file, 0x40086602UL, &flags));
  return 0;
}

/* A tree deeper than a path can name, and one of folders that nobody may look into. */
static int dig(void) {
  const char *folder = getenv("TMPDIR");
  if (!folder || chdir(folder) != 0) return 1;
  for (int i = 0; i < 1500; i++)
    if (mkdir("a-deep-folder", 0700) != 0 || chdir("a-deep-folder") != 0) return 1;
  if (chdir(folder) != 0) return 1;
  for (int i = 0; i < 40; i++)
    if (mkdir("shut", 0700) != 0 || chdir("shut") != 0) return 1;
  for (int i = 0; i < 40; i++)
    if (chdir("..") != 0 || chmod("shut", i % 2 ? 0 : 0500) != 0) return 1;
  puts(folder);
  return 0;
}

/* Without the sanitizer's look for leaks, which takes a process of its own. */
static int say_so(void) {
  static const char text[] = "was not ended\n";
  _exit(write(STDOUT_FILENO, text, sizeof text - 1) < 0);
}

/* As many children as it is told; or a child's child's child, each in a session of its own. Who was not ended
 * says so. */
static int multiply(long count, bool apart) {
  for (long i = 0; i < count; i++) {
    pid_t pid = fork();
    if (pid < 0) return 2;
    if (pid == 0 && apart) setsid();
    if ((pid == 0) != apart) break;
  }
  sleep(2);
  return say_so();
}

static void *sit(void *unused) {
  sleep(1000);
  return unused;
}

static int start_threads(long count) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (long i = 0; i < count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, &small, sit, NULL) != 0) return 2;
  }
  sleep(2);
  return say_so();
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "hop") == 0) return hop();
  if (strcmp(what, "grow") == 0) return grow_and_leave();
  if (strcmp(what, "knock") == 0) return knock();
  if (strcmp(what, "grab") == 0 && argc > 2) return grab((pid_t)atol(argv[2]));
  if (strcmp(what, "leave") == 0) return leave_behind();
  if (strcmp(what, "dig") == 0) return dig();
  if (strcmp(what, "multiply") == 0 && argc > 2) return multiply(atol(argv[2]), argc > 3);
  if (strcmp(what, "threads") == 0 && argc > 2) return start_threads(atol(argv[2]));
  return 1;
}
