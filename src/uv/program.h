/* program.h - starting a program without a shell, and the pipes to it. Used by the wire of a child
 * process (exec.c) and by the programs, which start others in ways of their own. */
#ifndef IDEM_UV_PROGRAM_H
#define IDEM_UV_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { IDEM__FILE_SAME = -1, IDEM__FILE_NULL = -2 };
#define IDEM__PROGRAM_FILES 4

typedef struct idem__program {
  const char *path;               /* NULL: argv[0], looked for in PATH unless it has a slash */
  const char *const *argv;        /* ends with NULL */
  const char *const *environment; /* ends with NULL; NULL: ours */
  const char *folder;             /* where it starts; NULL: where we are */
  bool session;                   /* of its own; else a group of its own */
  /* What its descriptors 0, 1, 2 and 3 are: one of ours above 3, FILE_SAME or FILE_NULL. */
  int files[IDEM__PROGRAM_FILES];
} idem__program;

/* Signals are as a new process has them. 0 and the pid, which is also its group's number; or errno,
 * and then nothing is left behind. */
int idem__program_start(const idem__program *program, pid_t *pid);
/* "exit status 3" or "signal 9 (Killed)" for what waitpid gave. */
void idem__program_end_text(int status, char *text, size_t size);

/* [0] is read from, [1] is written to; above 3 and closed on exec. `ours`, 0 or 1, does not block; the
 * other does, as programs expect. False: errno, and both are -1. */
bool idem__pipe_open(int ends[2], int ours);
/* A count or -errno. `mask_sigpipe`: the process would die of SIGPIPE. */
ssize_t idem__pipe_write(int fd, const struct iovec *pieces, int count, bool mask_sigpipe);
bool idem__sigpipe_kills(void);

#endif
