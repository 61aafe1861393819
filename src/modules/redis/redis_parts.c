/* redis_parts.c - where the parts of a store lie. In a cluster keys with one hash tag live in one slot, on one node; a store that
 * is to grow with the cluster has several tags, its parts, and each is named so that it lies in a stretch of slots of its own:
 * as nodes have stretches, too, they have equally many parts. See decision 16. */
#include "redis_store.h"

#include <stdio.h>

#define TRIES 100000u

/* CRC-16 of XMODEM, as the cluster's specification has it. */
unsigned redis_slot_of(const char *tag) {
  unsigned crc = 0;
  for (; *tag; tag++) {
    crc ^= (unsigned)(unsigned char)*tag << 8;
    for (int bit = 0; bit < 8; bit++) crc = crc & 0x8000u ? crc << 1 ^ 0x1021u : crc << 1;
  }
  return crc & (REDIS_SLOTS - 1);
}

static unsigned stretch_of(const char *tag, unsigned parts) {
  return redis_slot_of(tag) * parts / REDIS_SLOTS;
}

/* Part 0 is where a store of one part is: whoever comes with another number finds there that it is another. The tags of the
 * others say the number, and no store of another has the same. */
void redis_name_part(char *tag, size_t size, const char *stem, unsigned part, unsigned parts) {
  snprintf(tag, size, "%s", stem);
  if (!part) return;
  unsigned wanted = (stretch_of(stem, parts) + part) % parts;
  for (unsigned i = 0; i < TRIES; i++) {
    snprintf(tag, size, "%s#%u.%u", stem, parts, i);
    if (stretch_of(tag, parts) == wanted) return;
  }
  snprintf(tag, size, "%s#%u/%u", stem, parts, part); /* unreachable: digits reach every slot */
}
