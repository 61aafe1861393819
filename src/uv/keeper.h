/* keeper.h - a conn to a program that somebody else starts, signals and sees the end of: the same wire as
 * "exec:", without a child of ours. For the programs, which confine what they run. */
#ifndef IDEM_UV_KEEPER_H
#define IDEM_UV_KEEPER_H

#include <idem/uv.h>

typedef struct idem__exec_keeper {
  /* Starts it with these as its descriptors 0, 1 and 2, which are lent for the call: 0 or errno. */
  int (*start)(void *user, int input, int output, int errors);
  /* SIGTERM or SIGKILL for all of it. */
  void (*signal)(void *user, int number);
} idem__exec_keeper;

/* The conn is there at once, or there is none and nothing was started; on_close of opts tells its end. The
 * ladder is that of "exec:". opts is copied; its policy, too. */
idem_status idem__connect_kept(uv_loop_t *loop, const idem_connect_opts *opts, const char *program,
                               const idem__exec_keeper *keeper, void *keeper_user,
                               idem_conn **conn);
/* It has ended, as waitpid says it; once, while the conn is not closed. */
void idem__exec_ended(idem_conn *conn, int status);

#endif
