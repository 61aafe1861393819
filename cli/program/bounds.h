/* bounds.h - what tools may reach according to the file: that none may write what gives it its bounds,
 * and what a changed file gives them beyond what they had. */
#ifndef IDEM_CLI_BOUNDS_H
#define IDEM_CLI_BOUNDS_H

#include "config/config.h"

/* False: a tool may write the configuration itself, or a program that may do more than its own; told. */
bool bounds_check(serve_config *self);

/* Whether a path is in one of the folders, or one of them; the list ends with NULL and may be NULL. */
/* Whether the folder is on the way that `path` takes, links and all: then who may write the one decides what
 * the other is. */
bool bounds_on_way(const char *path, const char *folder);
bool bounds_within(const char *path, const char *const *folders);

/* Whether a path is the folder or in it; either may be NULL. */
bool bounds_beneath(const char *path, const char *folder);

/* Whether a program of that name runs what its words say. */
bool bounds_is_interpreter(const char *program);
/* outside.c: says so where the tool's program or its interpreter lies where confined programs cannot read. */
void bounds_note_outside(serve_config *self, const tool_config *tool);

/* loosened.c: whether a tool reaches more than another one, which may be NULL. */
bool bounds_has_more(const serve_config *config, const tool_config *tool, const tool_config *other);
/* Whether tools, resources, prompts or limits have more in `now` than those of their name in `before`, or new ones
 * more than is usual; the log is told of all of it, as of what is so or would be. */
bool bounds_loosened(const serve_config *before, const serve_config *now, idem_log *log,
                     bool refused);

#endif
