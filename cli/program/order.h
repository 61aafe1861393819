/* order.h - what the server, the spawner and its runners say to each other: packets over sockets, with
 * the descriptors a program gets. Only these processes hold the sockets. See docs/internals/cli.md. */
#ifndef IDEM_CLI_ORDER_H
#define IDEM_CLI_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The filters of system calls that programs inherit from their runner, each more than the one before:
 * they are put on once and never taken off. */
typedef enum seal_level {
  SEAL_NONE,
  SEAL_OTHERS, /* other processes are left alone */
  SEAL_SOCKETS /* and there are no sockets */
} seal_level;

/* What is to be started, and how. */
typedef struct spawn_order {
  const char *program;
  char *const *argv;
  char *const *environment;
  const char *cwd;
  const char *scratch; /* a folder to remove when nothing runs any more; empty: none */
  int rules;           /* a Landlock ruleset to put on; -1: none */
  seal_level seal;
  uint32_t processes; /* that may come of it at a time, threads included; 0: as many as it likes */
  int input;          /* -1: there is nothing to read */
  int output;
  int errors;
} spawn_order;

typedef enum order_kind {
  ORDER_RUN = 1, /* to a runner: an order_head, its texts, its descriptors */
  ORDER_TERM,    /* to a runner: asks the program and its group to end */
  ORDER_KILL,    /* to a runner: ends everything that came of the program */
  ORDER_HAND,    /* to the spawner: a new runner is wanted */
  ORDER_DROP,    /* to the spawner: ends the runner `value`, and what it leaves behind */
  ORDER_FOLDER,  /* to the spawner: a folder to remove at the end; its path follows */
  REPORT_EXITED, /* from a runner: `value` is the status that waitpid gave; nothing is left running */
  REPORT_FAILED,  /* from both: it could not be started; `value` is errno */
  REPORT_HAND,    /* from the spawner: `value` is the runner's pid; its socket comes along */
  REPORT_CROWDED, /* as REPORT_EXITED; it was ended because more processes came of it than may */
  REPORT_TIDYING  /* from a runner: nothing is left running, its folder is being removed */
} order_kind;

typedef struct order_note {
  uint32_t kind;
  int32_t value;
} order_note;

#define ORDER_FDS 5u
#define ORDER_PACKET 16384u /* longer orders come as a file in memory */

/* A packet as it came. */
typedef struct order_packet {
  ssize_t len; /* 0: the other side is gone; -1: errno says why there is none */
  int fds[ORDER_FDS];
  size_t fd_count;
  _Alignas(8) char bytes[ORDER_PACKET];
} order_packet;

/* 0 or errno; EAGAIN: the socket is full. */
int order_note_send(int socket, order_kind kind, int value, int fd);
int order_folder_send(int socket, const char *path);
int order_run_send(int socket, const spawn_order *order);

/* Waits unless told otherwise. */
void order_receive(int socket, order_packet *packet, bool wait);
void order_close_fds(order_packet *packet);
/* A note's kind and value; kind 0: it is none. */
order_note order_note_of(const order_packet *packet);

/* An order taken apart: texts stand in the packet or in mapped memory. Keeps its arrays for the
 * next one. */
typedef struct order_reader {
  spawn_order order;
  char **words;
  size_t capacity;
  char *mapped;
  size_t mapped_len;
} order_reader;

/* 0 or errno. order_read_end either way, after which the texts are gone. */
int order_read(order_reader *self, order_packet *packet);
void order_read_end(order_reader *self);

#endif
