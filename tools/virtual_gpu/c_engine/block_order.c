/* What orders thread blocks, as memory/block_order.py has it: an access is published up to a time, and what others
 * published until a time is acquired. Only one worker notes it. */
#include <string.h>
#include "machine.h"

/* Times of a warp: until when its own accesses lie behind a fence of its own, and those of others of the block; its last
 * barrier; what it has acquired; then until when its accesses lay behind any fence at a barrier, are published, and, where
 * they are reads, have a flag behind them. */
enum { FENCED, FENCED_OTHERS, MET, ACQUIRED, FENCED_BEFORE, PUBLISHED, FLAGGED, TIMES };
enum { PLACES = 1 << 16, PLACE_BITS = 4 };

static uint32_t *times_of(const struct launch *launch, uint64_t block, uint32_t warps, int which) {
  return launch->times + (block * TIMES + which) * warps;
}
static uint32_t *mine(const struct warp *w, int which) { return times_of(w->launch, w->block_id, w->warps, which); }
static int noted(const struct launch *launch) { return launch->times && launch->precise; }
static void raise_to(uint32_t *time, uint32_t other) { *time = *time < other ? other : *time; }

static uint32_t *place_of(const struct launch *launch, uint64_t address) {
  const uint64_t words = address >> PLACE_BITS;
  return launch->places + ((words ^ words >> 16) & (PLACES - 1));
}

uint32_t block_order_now(const struct launch *launch) { return launch->clock ? *launch->clock : 0; }

static void fence(struct warp *w) {
  mine(w, FENCED)[w->index] = *w->launch->clock;
  mine(w, FENCED_OTHERS)[w->index] = mine(w, MET)[w->index];
}

void block_fence(struct warp *w, uint32_t m) {
  if (!m || !noted(w->launch)) return;
  fence(w);
  ++*w->launch->clock;
}

/* A barrier opened. arrived: lanes by warp. */
void block_order_meet(struct worker *k, const uint32_t *arrived) {
  if (!noted(k->launch)) return;
  const struct warp *w = k->warps;
  uint32_t others = 0, seen = 0;
  for (uint32_t i = 0; i < k->warp_count; i++)
    if (arrived[i]) raise_to(&others, mine(w, FENCED_OTHERS)[i]), raise_to(&seen, mine(w, ACQUIRED)[i]);
  for (uint32_t i = 0; i < k->warp_count; i++) {
    raise_to(&mine(w, FENCED_BEFORE)[i], others);
    if (!arrived[i]) continue;
    raise_to(&mine(w, FENCED_BEFORE)[i], mine(w, FENCED)[i]);
    mine(w, MET)[i] = *k->launch->clock, mine(w, ACQUIRED)[i] = seen;
  }
  ++*k->launch->clock;
}

/* Something orders some warps of the block, and all count. */
void block_order_all_meet(struct worker *k) {
  uint32_t live[LANES];
  for (uint32_t i = 0; i < k->warp_count; i++) live[i] = k->warps[i].live;
  block_order_meet(k, live);
}

static void publish(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, int flags) {
  const struct launch *launch = w->launch;
  if (site->releases) fence(w);
  const uint32_t others = mine(w, FENCED_OTHERS)[w->index], met = mine(w, MET)[w->index];
  uint32_t *published = mine(w, PUBLISHED), *flagged = mine(w, FLAGGED), *before = mine(w, FENCED_BEFORE);
  for (uint32_t i = 0; i < w->warps; i++) {
    raise_to(&published[i], before[i]), raise_to(&published[i], others);
    if (flags) raise_to(&flagged[i], met);
  }
  raise_to(&published[w->index], mine(w, FENCED)[w->index]);
  if (flags) flagged[w->index] = *launch->clock;
  LANES_OF(m, l) *place_of(launch, address[l]) = *launch->clock;
  ++*launch->clock;
}

void block_synchronise(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, int flags) {
  const struct launch *launch = w->launch;
  if (!m || !noted(launch)) return;
  /* Where the grid meets: that is seen once all are there (grid.c). */
  if (launch->meeting_place && address[LOWEST(m)] - launch->meeting_place < 8) return;
  if (site->writes) publish(w, site, address, m, flags);
  if (flags) return;
  LANES_OF(m, l) raise_to(&mine(w, ACQUIRED)[w->index], *place_of(launch, address[l]));
}

/* Whether what a thread of block `first` did at that time comes before what the warp does now. */
int block_ordered(const struct warp *w, uint64_t first, uint32_t thread, uint32_t when, int wrote) {
  const struct launch *launch = w->launch;
  if (!noted(launch) || when > mine(w, ACQUIRED)[w->index]) return 0;
  const uint32_t at = thread / LANES;
  return first == (uint64_t)w->block_id || when <= times_of(launch, first, w->warps, PUBLISHED)[at] ||
         (!wrote && when <= times_of(launch, first, w->warps, FLAGGED)[at]);
}

void block_order_restart(const struct launch *launch) {
  if (!launch->times) return;
  const uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  const uint32_t warps = (launch->block[0] * launch->block[1] * launch->block[2] + LANES - 1) / LANES;
  memset(launch->times, 0, blocks * TIMES * warps * sizeof *launch->times);
  memset(launch->places, 0, PLACES * sizeof *launch->places);
}
