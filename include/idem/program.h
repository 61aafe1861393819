/* idem/program.h - starting programs without a shell, the pipes to them, and speaking JSON-RPC with one that somebody
 * starts in a way of his own. For "exec:" addresses none of this is needed (uv.h). */
#ifndef IDEM_PROGRAM_H
#define IDEM_PROGRAM_H

#include <idem/uv.h>
#include <stdbool.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { IDEM_FILE_SAME = -1, IDEM_FILE_NULL = -2 };
#define IDEM_PROGRAM_FILES 4

typedef struct idem_program {
  const char *path;               /* NULL: argv[0], looked for in PATH unless it has a slash */
  const char *const *argv;        /* ends with NULL */
  const char *const *environment; /* ends with NULL; NULL: ours */
  const char *folder;             /* where it starts; NULL: where we are */
  bool session;                   /* of its own; else a group of its own */
  /* What its descriptors 0, 1, 2 and 3 are: one of ours above 3, FILE_SAME or FILE_NULL. */
  int files[IDEM_PROGRAM_FILES];
} idem_program;

/* Signals are as a new process has them. 0 and the pid, which is also its group's number; or errno,
 * and then nothing is left behind. */
IDEM_API int idem_program_start(const idem_program *program, pid_t *pid);
/* "exit status 3" or "signal 9 (Killed)" for what waitpid gave. */
IDEM_API void idem_program_end_text(int status, char *text, size_t size);

/* [0] is read from, [1] is written to; above 3 and closed on exec. `ours`, 0 or 1, does not block; the
 * other does, as programs expect. False: errno, and both are -1. */
IDEM_API bool idem_pipe_open(int ends[2], int ours);

/* -------------------------------------------------------- kept by somebody else */

/* A conn to a program that somebody else starts, signals and sees the end of: the same wire as
 * "exec:", without a child of ours. */
typedef struct idem_program_keeper {
  /* Starts it with these as its descriptors 0, 1 and 2, which are lent for the call: 0 or errno. */
  int (*start)(void *user, int input, int output, int errors);
  /* SIGTERM or SIGKILL for all of it. */
  void (*signal)(void *user, int number);
} idem_program_keeper;

/* The conn is there at once, or there is none and nothing was started; on_close of opts tells its end. The
 * ladder is that of "exec:". opts is copied; its policy, too. */
IDEM_API idem_status idem_connect_kept(uv_loop_t *loop, const idem_connect_opts *opts,
                                       const char *program, const idem_program_keeper *keeper,
                                       void *keeper_user, idem_conn **conn);
/* It has ended, as waitpid says it; once, while the conn is not closed. */
IDEM_API void idem_program_ended(idem_conn *conn, int status);

#ifdef __cplusplus
}
#endif
#endif
