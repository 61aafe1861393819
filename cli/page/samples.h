/* samples.h - the last hour of a server in numbers, one sample every ten seconds. */
#ifndef IDEM_CLI_SAMPLES_H
#define IDEM_CLI_SAMPLES_H

#include "program/program.h"
#include "record.h"

#include <idem/uv.h>
#include <uv.h>

#define SAMPLES_KEPT 360u

_Static_assert(sizeof(sample) * SAMPLES_KEPT <= (size_t)64 * 1024, "an hour takes 64 KiB at most");

typedef struct samples {
  uv_timer_t timer;
  const program_host *programs;
  idem_metrics_sums before;
  sample *kept; /* a ring; NULL until the loop runs, or for want of memory */
  size_t made;
  void (*on_sample)(void *user, const sample *taken);
  void *user;
} samples;

void samples_init(samples *self, const program_host *programs,
                  void (*on_sample)(void *user, const sample *taken), void *user);
/* Never keeps the loop alive. */
void samples_start(samples *self, uv_loop_t *loop);
/* One now; the timer does it every ten seconds. */
void samples_take(samples *self);
void samples_deinit(samples *self);
/* The oldest first. */
size_t samples_count(const samples *self);
const sample *samples_at(const samples *self, size_t index);
uint64_t wall_clock_us(void);

#endif
