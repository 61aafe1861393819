/* samples.c - see samples.h. Counts are differences: what happened in these ten seconds. */
#include "samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t wall_clock_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static uint64_t memory_in_use(void) {
  char line[128] = "";
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file) return 0;
  const char *second = fgets(line, sizeof line, file) ? strchr(line, ' ') : NULL;
  uint64_t resident = second ? strtoull(second, NULL, 10) : 0;
  fclose(file);
  return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint32_t count_of(const idem_list *list) {
  uint32_t count = 0;
  for (const idem_list *node = list->next; node != list; node = node->next) count++;
  return count;
}

static sample take(samples *self) {
  idem_metrics_sums now = {0};
  const idem_metrics_sums *before = &self->before;
  idem_process_metrics(&now);
  sample taken = {.wall_us = wall_clock_us(),
                  .memory = memory_in_use(),
                  .requests = (uint32_t)(now.requests - before->requests),
                  .errors = (uint32_t)(now.errors - before->errors),
                  .p50_us = (uint32_t)idem_metrics_percentile_us(before, &now, 50),
                  .p95_us = (uint32_t)idem_metrics_percentile_us(before, &now, 95),
                  .p99_us = (uint32_t)idem_metrics_percentile_us(before, &now, 99),
                  .sessions = (uint32_t)now.sessions,
                  .connections = (uint32_t)now.connections,
                  .processes =
                      count_of(&self->programs->running) + count_of(&self->programs->kept)};
  self->before = now;
  return taken;
}

void samples_take(samples *self) {
  sample taken = take(self);
  if (self->kept) self->kept[self->made++ % SAMPLES_KEPT] = taken;
  self->on_sample(self->user, &taken);
}

static void on_timer(uv_timer_t *timer) { samples_take(timer->data); }

void samples_init(samples *self, const program_host *programs,
                  void (*on_sample)(void *user, const sample *taken), void *user) {
  *self = (samples){.programs = programs, .on_sample = on_sample, .user = user};
}

void samples_start(samples *self, uv_loop_t *loop) {
  self->kept = calloc(SAMPLES_KEPT, sizeof *self->kept);
  uv_timer_init(loop, &self->timer);
  self->timer.data = self;
  uint64_t pace_ms = (uint64_t)SAMPLE_SECONDS * 1000u;
  uv_timer_start(&self->timer, on_timer, pace_ms, pace_ms);
  uv_unref((uv_handle_t *)&self->timer);
}

void samples_deinit(samples *self) { free(self->kept); }

size_t samples_count(const samples *self) {
  return self->made < SAMPLES_KEPT ? self->made : SAMPLES_KEPT;
}

const sample *samples_at(const samples *self, size_t index) {
  return &self->kept[(self->made - samples_count(self) + index) % SAMPLES_KEPT];
}
