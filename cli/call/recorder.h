/* recorder.h - --record FILE: every message of a call as lines of a recording (docs/guide/page.md), to look at with the page. Lines are
 * added at the end, each when it happens, so that what led to a crash is there. */
#ifndef IDEM_CLI_CALL_RECORDER_H
#define IDEM_CLI_CALL_RECORDER_H

#include <idem/rpc.h>

typedef struct call_recorder call_recorder;

/* `peer` and `log`, which knows the secrets, are lent. NULL: the file cannot be used, and stderr has said why. */
call_recorder *recorder_new(const char *path, const char *peer, const idem_log *log);
/* NULL is nobody. */
void recorder_message(call_recorder *self, idem_direction direction, const char *data, size_t len);
/* False: not all of it is in the file, and stderr has said so. */
bool recorder_free(call_recorder *self);

#endif
