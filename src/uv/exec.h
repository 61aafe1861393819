/* exec.h - a program whose input and output are a conn's bytes: the wire (exec.c) and what opens it (exec_open.c).
 * See docs/internals/uv.md. */
#ifndef IDEM_UV_EXEC_H
#define IDEM_UV_EXEC_H

#include "uv/client.h"
#include <idem/program.h>

#include <sys/types.h>

#define IDEM__EXEC_ERRORS_BYTES 4096

/* Our end of a pipe. */
typedef struct idem__exec_end {
  int fd; /* -1: closed */
  uv_poll_t poll;
  bool made;
  bool watched;
} idem__exec_end;

/* How far a program that is to end has been urged. */
typedef enum idem__exec_step {
  IDEM__EXEC_RUNNING,
  IDEM__EXEC_INPUT_ENDED,
  IDEM__EXEC_TERM_SENT,
  IDEM__EXEC_KILL_SENT
} idem__exec_step;

typedef struct idem__exec {
  idem__peer peer;
  idem_serve_opts opts;
  const idem_client_opts *client; /* until the program was started */
  void (*on_stderr)(idem_conn *conn, const char *data, size_t len, void *user);
  idem__exec_end in, out, errors; /* as the program calls them */
  uv_idle_t idle; /* the first turn; instead of out.poll, once the program has ended */
  uv_signal_t child_ended;
  bool watches_children;
  unsigned open_handles;
  const idem_program_keeper *keeper; /* NULL: the program is our own child */
  void *keeper_user;
  pid_t pid; /* of our child, until it is reaped */
  bool runs; /* it was started, and its end is not known */
  bool ended;
  bool told; /* the conn is there */
  bool wants_read;
  bool mask_sigpipe;
  bool asked; /* to end, by us */
  idem__exec_step step;
  uint64_t step_ms;
  bool waited; /* its output has ended: its own end may follow at once, */
  bool mute;   /* and did not: it is ended for that */
  char how[128];
  size_t errors_len;
  char errors_text[IDEM__EXEC_ERRORS_BYTES];
} idem__exec;

extern const idem__wire idem__exec_wire;
/* Callbacks of its handles, whose data is the peer. */
void idem__exec_idle(uv_idle_t *idle);
void idem__exec_child_ended(uv_signal_t *handle, int number);
void idem__exec_errors(uv_poll_t *poll, int status, int events);

#endif
