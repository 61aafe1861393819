/* bounds.h - what tools may reach according to the file: that none may write what gives it its bounds,
 * and what a changed file gives them beyond what they had. */
#ifndef IDEM_CLI_BOUNDS_H
#define IDEM_CLI_BOUNDS_H

#include "config/config.h"

/* False: a tool may write the configuration itself, or a program that may do more than its own; told. */
bool bounds_check(serve_config *self);

/* Whether a path is in one of the folders, or one of them; the list ends with NULL and may be NULL. */
bool bounds_within(const char *path, const char *const *folders);

/* Whether a tool is given more in `now` than the one of its name in `before`, or a new one more than nothing;
 * the log is told of each at `level`. */
bool bounds_loosened(const serve_config *before, const serve_config *now, idem_log *log,
                     idem_log_level level);

#endif
