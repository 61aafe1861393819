/* crowd.h - how many processes and threads have come of this one. */
#ifndef IDEM_CLI_CROWD_H
#define IDEM_CLI_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define CROWD_MOST 65536u

/* Whether more than `most` (of CROWD_MOST at most) have; as far as /proc tells. Not for two threads at a time. */
bool crowd_is_past(uint32_t most);

#endif
