/* program.h - writing into the pipes of a program. */
#ifndef IDEM_UV_PROGRAM_H
#define IDEM_UV_PROGRAM_H

#include <idem/program.h>
#include <sys/uio.h>

/* A count or -errno. `mask_sigpipe`: the process would die of SIGPIPE. */
ssize_t idem__pipe_write(int fd, const struct iovec *pieces, int count, bool mask_sigpipe);
bool idem__sigpipe_kills(void);

#endif
