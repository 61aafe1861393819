/* histogram.c - see histogram.h. */
#include "histogram.h"

#include <string.h>

#define ROWS 8u
#define BAR 40u

void histogram_reset(histogram *self) {
  memset(self, 0, sizeof *self);
  self->least = UINT64_MAX;
}

/* Below 128 each has its own class; above, the 7 bits behind the first one choose. */
static size_t class_of(uint64_t ns) {
  unsigned top = 63u - (unsigned)__builtin_clzll(ns | 1);
  if (top < HISTOGRAM_FINE) return (size_t)ns;
  unsigned shift = top - HISTOGRAM_FINE;
  return ((size_t)(shift + 1) << HISTOGRAM_FINE) + (size_t)((ns >> shift) - (1u << HISTOGRAM_FINE));
}

/* The longest time of a class. */
static uint64_t end_of(size_t index) {
  size_t row = index >> HISTOGRAM_FINE, column = index & ((1u << HISTOGRAM_FINE) - 1);
  if (!row) return index;
  unsigned shift = (unsigned)row - 1;
  uint64_t begin = ((uint64_t)(1u << HISTOGRAM_FINE) + column) << shift;
  return begin + (UINT64_C(1) << shift) - 1;
}

/* The end of a class, where times are known to be as long. */
static uint64_t longest(const histogram *self, size_t index) {
  return end_of(index) < self->most ? end_of(index) : self->most;
}

void histogram_add(histogram *self, uint64_t ns) {
  self->count++;
  self->sum += ns;
  if (ns < self->least) self->least = ns;
  if (ns > self->most) self->most = ns;
  self->classes[class_of(ns)]++;
}

uint64_t histogram_at(const histogram *self, double share) {
  double wanted = share * (double)self->count;
  uint64_t seen = 0;
  if (!self->count) return 0;
  for (size_t i = 0; i < HISTOGRAM_CLASSES; i++) {
    seen += self->classes[i];
    if ((double)seen >= wanted && seen) return longest(self, i);
  }
  return self->most;
}

const char *histogram_time(uint64_t ns, char *words, size_t size) {
  double value = (double)ns;
  const char *unit = "ns";
  static const char *const larger[] = {"us", "ms", "s"};
  for (size_t i = 0; i < 3 && value >= 999.5; i++) {
    value /= 1000;
    unit = larger[i];
  }
  snprintf(words, size, value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s", value, unit);
  return words;
}

static uint64_t count_between(const histogram *self, uint64_t from, uint64_t to) {
  uint64_t count = 0;
  for (size_t i = 0; i < HISTOGRAM_CLASSES; i++)
    if (self->classes[i] && longest(self, i) > from && longest(self, i) <= to)
      count += self->classes[i];
  return count;
}

/* From the least to p99.9 in equal steps, then the rest. */
void histogram_draw(const histogram *self, FILE *out) {
  uint64_t low = self->count ? self->least : 0, high = histogram_at(self, 0.999);
  uint64_t counts[ROWS + 1], ends[ROWS + 1], largest = 1;
  if (!self->count) return;
  uint64_t step = (high - low) / ROWS + 1, from = low ? low - 1 : 0;
  for (size_t i = 0; i <= ROWS; i++) {
    ends[i] = i == ROWS ? UINT64_MAX : low + step * (i + 1);
    counts[i] = count_between(self, i ? ends[i - 1] : from, ends[i]);
    if (counts[i] > largest) largest = counts[i];
  }
  for (size_t i = 0; i <= ROWS; i++) {
    char words[32], bar[BAR + 1];
    size_t full = (size_t)((double)counts[i] * BAR / (double)largest + 0.5);
    if (i == ROWS && !counts[i]) continue;
    memset(bar, '#', full);
    bar[full] = 0;
    fprintf(out, "  %s%9s  %-*s %llu\n", i == ROWS ? "over " : "  to ",
            histogram_time(i == ROWS ? ends[ROWS - 1] : ends[i], words, sizeof words), (int)BAR,
            bar, (unsigned long long)counts[i]);
  }
}
