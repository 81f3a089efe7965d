/* Stamps of the checks for races between threads of a block: which one touched a place last, and when. From the lowest bit:
 * which instruction (13), lane (5), several lanes (1), how often the warp's lanes had met (12), warp (5), several warps (1),
 * the epoch (27): how many barriers of the block had opened. */
#ifndef STAMPS_H
#define STAMPS_H
#include <stdint.h>

#define BIT(n) ((uint64_t)1 << (n))
enum { LANE = 13, SEVERAL = 18, SYNC = 19, WARP = 31, MANY = 36, EPOCH = 37 };
enum { UNKNOWN_SITE = 0x1FFF, MAX_SYNCS = 0xFFF };
enum verb { READ, WROTE, AT_ONCE, CHANGED };

/* Of two stamps, xor: of different warps since the same barrier; of different lanes of a warp that has not met since. */
static inline int between(uint64_t apart) { return apart - BIT(WARP) < BIT(EPOCH) - BIT(WARP); }
static inline int within(uint64_t apart) { return apart - BIT(LANE) < BIT(SYNC) - BIT(LANE); }

/* The stamp of one more who may be there at once with those before, with what is to be kept of them. */
static inline uint64_t joined(uint64_t known, uint64_t mine) {
  return mine | (uint64_t)between(known ^ mine) << MANY | (uint64_t)within(known ^ mine) << SEVERAL;
}

#endif
