/* welcome.h - what a configuration serves, for a person to read: what there is, what keeps it in bounds,
 * how to try it, what to put into an assistant's settings. */
#ifndef IDEM_CLI_WELCOME_H
#define IDEM_CLI_WELCOME_H

#include "serve.h"
#include "service/edition.h"

#include <stdio.h>

/* `options` is NULL where nothing is served. On a terminal it takes a screen at most. */
void welcome(FILE *out, const edition *served, const char *path, const serve_options *options);

#endif
