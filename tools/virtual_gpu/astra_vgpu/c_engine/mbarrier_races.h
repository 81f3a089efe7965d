/* Which accesses of other warps come before a warp's own, where mbarriers order them (mbarrier_races.py). */
#ifndef ORDER_H
#define ORDER_H
#include "machine.h"

enum { COPIES = LANES, CLOCK = LANES + 1 }; /* bulk copies count as one more warp */
typedef int64_t clocks[CLOCK];              /* by warp, the time up to which it was seen */

struct order {
  int64_t time, base; /* base: of the last barrier of the block */
  int64_t own[LANES];
  clocks seen[LANES], ahead[LANES]; /* what a warp has seen; what only some lanes of it have, until it meets */
  uint32_t ahead_lanes[LANES], arrived[LANES]; /* these lanes; those that have arrived somewhere since the warp met */
  int64_t *written, *since; /* by granule */
  uint32_t *by, *readers;   /* the thread that wrote last; a bit for each warp that read since */
  uint8_t *unfenced;        /* stored, with no fence since that a copy out of shared memory needs */
};

void release_to(struct warp *w, uint32_t lanes, clocks before);
void acquire_from(struct warp *w, uint32_t lanes, const clocks before);
int is_seen(const struct warp *w, uint32_t lanes, uint32_t by, int64_t time);
int counts_as_met(const struct warp *w, uint32_t lanes);
int64_t copied(struct worker *k, uint64_t start, uint64_t size);
void ordered_read_span(struct warp *w, const struct site *site, uint32_t lane, uint64_t start, uint64_t size);
void ordered_write_span(struct warp *w, const struct site *site, uint32_t lane, uint64_t start, uint64_t size,
                        const uint8_t *data);
#endif
