/* metrics.h - the cells that metrics.c counts in and metrics_render.c reads.
 * Private to the two of them. */
#ifndef IDEM_BASE_METRICS_H
#define IDEM_BASE_METRICS_H

#include "base.h"

#include <stdatomic.h>

enum {
  IDEM__BUCKETS = 16,    /* and one more for what is slower */
  IDEM__ERROR_CODES = 8, /* and one more for all others */
  IDEM__LABEL_FIRST = 64,
  IDEM__LABEL_CHUNKS = 11 /* 64 * (2^11 - 1) = 131,008 labels */
};

typedef _Atomic uint64_t idem__cell;

/* What is counted for one method or tool. */
typedef struct idem__row {
  idem__cell notifications;
  idem__cell outcomes[IDEM__OUTCOMES];
  idem__cell buckets[IDEM__BUCKETS + 1]; /* each on its own; summed up when rendered */
  idem__cell duration_ns;
} idem__row;

typedef struct idem__label {
  char *name;
  size_t name_len;
  idem__method_label number;
  _Atomic(idem__row *) row; /* NULL until first used */
} idem__label;

/* The names of one kind of thing, a row for each. */
typedef struct idem__label_set {
  idem__row other;
  atomic_size_t count;                     /* stored after the label it makes visible */
  idem__label *chunks[IDEM__LABEL_CHUNKS]; /* read up to count only */
  idem_map by_name;                        /* the owner's, for registering */
} idem__label_set;

struct idem_metrics {
  idem_alloc alloc;
  idem__cell counters[IDEM__M_COUNTERS];
  idem__cell errors[IDEM__ERROR_CODES + 1];
  idem__label_set methods;
  idem__label_set tools;
};

extern const uint64_t idem__bucket_ns[IDEM__BUCKETS];
extern const int idem__error_codes[IDEM__ERROR_CODES];

idem__label *idem__label_slot(const idem__label_set *set, size_t index);

#endif
