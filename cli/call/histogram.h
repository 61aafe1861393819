/* histogram.h - times in nanoseconds, counted in classes of a hundredth of their size.
 * Recording is a handful of instructions and no memory. */
#ifndef IDEM_CLI_CALL_HISTOGRAM_H
#define IDEM_CLI_CALL_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HISTOGRAM_FINE 7u /* 128 classes from each power of two to the next */
#define HISTOGRAM_CLASSES ((64u - HISTOGRAM_FINE + 1u) << HISTOGRAM_FINE)

typedef struct histogram {
  uint64_t count;
  uint64_t sum;
  uint64_t least, most;
  uint64_t classes[HISTOGRAM_CLASSES];
} histogram;

void histogram_reset(histogram *self);
void histogram_add(histogram *self, uint64_t ns);
/* The time that this share (0 to 1) of all were not longer than; 0 where there are none. */
uint64_t histogram_at(const histogram *self, double share);
/* A few rows of bars. */
void histogram_draw(const histogram *self, FILE *out);
/* "412 us", "1.25 ms", "3.1 s". */
const char *histogram_time(uint64_t ns, char *words, size_t size);

#endif
