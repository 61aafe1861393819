/* tls_files.h - the certificate of a listener: read from files, and again when they change. */
#ifndef IDEM_UV_TLS_FILES_H
#define IDEM_UV_TLS_FILES_H

#include "modules/tls/tls.h"
#include "uv/runtime.h"

/* The TLS module, loaded for good; NULL: `why` says what is missing. */
const idem__tls_module *idem__tls_module_get(char *why, size_t size);

typedef struct idem__tls_files idem__tls_files;
/* By the listener's http options. Logs what is wrong: SYS. */
idem_status idem__tls_files_open(const idem_listener *listener, idem__tls_files **out);
void idem__tls_files_free(idem__tls_files *files); /* takes NULL */
const idem__tls_module *idem__tls_files_module(const idem__tls_files *files);
/* A session for one who has come, with the files as they are now. */
idem_status idem__tls_files_accept(idem__tls_files *files, idem__tls_session **out);

#endif
