/* address.c - which addresses the world at large can have. What a stranger's document names is connected to there alone:
 * else it could make this machine ask its neighbours. */
#include "auth.h"

#include <string.h>

typedef struct net {
  uint8_t bytes[4];
  unsigned bits;
} net;

/* The IANA registry of special addresses, and all from multicast up. */
static const net closed[] = {
    {{0}, 8},         {{10}, 8},       {{100, 64}, 10},      {{127}, 8},
    {{169, 254}, 16}, {{172, 16}, 12}, {{192, 0, 0}, 24},    {{192, 0, 2}, 24},
    {{192, 168}, 16}, {{198, 18}, 15}, {{198, 51, 100}, 24}, {{203, 0, 113}, 24},
    {{224}, 3}};

static uint32_t number_of(const uint8_t bytes[4]) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool public_4(const uint8_t *address) {
  for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
    if ((number_of(address) ^ number_of(closed[i].bytes)) >> (32 - closed[i].bits) == 0)
      return false;
  return true;
}

/* Only 2000::/3 is given out; within it, what carries an address of the older kind is that address. */
static bool public_6(const uint8_t *address) {
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}, nat64[12] = {0, 0x64, 0xff, 0x9b};
  if (memcmp(address, mapped, 12) == 0 || memcmp(address, nat64, 12) == 0)
    return public_4(address + 12);
  if (address[0] == 0x20 && address[1] == 0x02) return public_4(address + 2);
  if (memcmp(address, (const uint8_t[]){0x20, 0x01, 0, 0}, 4) == 0) return false; /* Teredo */
  return (address[0] & 0xe0) == 0x20;
}

bool idem__auth_address_is_public(const uint8_t *address, size_t len) {
  if (len == 4) return public_4(address);
  return len == 16 && public_6(address);
}
