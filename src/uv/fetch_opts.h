/* fetch_opts.h - what a fetch was asked for: checked, and copied for as long as it lasts. */
#ifndef IDEM_UV_FETCH_OPTS_H
#define IDEM_UV_FETCH_OPTS_H

#include "base/base.h"

#include <idem/fetch.h>

bool idem__fetch_header_is(const char *header, const char *name);
/* A URL is there, method and headers can be sent, and of the functions for streams both or neither. */
bool idem__fetch_opts_good(const idem_fetch_opts *opts);
/* Its texts are copies, with a User-Agent among the headers. False: no memory; it is to be freed all the same. */
bool idem__fetch_opts_copy(const idem_alloc *alloc, idem_fetch_opts *to,
                           const idem_fetch_opts *from);
void idem__fetch_opts_free(const idem_alloc *alloc, idem_fetch_opts *opts);

#endif
