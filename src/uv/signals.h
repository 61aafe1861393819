/* signals.h - the signals a server listens to while idem_run runs. */
#ifndef IDEM_UV_SIGNALS_H
#define IDEM_UV_SIGNALS_H

#include <stdbool.h>
#include <uv.h>

/* SIGINT, SIGTERM and SIGHUP set flags and wake the loop; a second SIGINT or SIGTERM ends the
 * process at once; SIGPIPE is ignored. `hangup_reloads`: SIGHUP asks for a reload, not for an end,
 * unless it says that the terminal is gone that the process was started on. */
void idem__signals_start(uv_async_t *wake, bool hangup_reloads);
/* Puts the former dispositions back. */
void idem__signals_stop(void);
/* The signal that asks us to stop, or 0. */
int idem__signals_stop_asked(void);
/* True once for each time a reload was asked for. */
bool idem__signals_take_reload(void);

#endif
