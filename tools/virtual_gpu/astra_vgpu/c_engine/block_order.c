/* What orders thread blocks, as memory/block_order.py has it: an access is published up to a time, and what others
 * published until a time is acquired. Only one worker notes it. */
#include <string.h>
#include "machine.h"

/* Times of a warp: until when its own accesses lie behind a fence of its own, and those of others of the block; its last
 * barrier; what it has acquired; then until when its accesses lay behind any fence at a barrier, are published, and, where
 * they are reads, have a flag behind them; from PENDING on until when they are published at the last flags at which nobody
 * has looked yet. Of such a flag: its place + 1 and since when. Of a place: which block + 1 looked last, when, and when
 * another one did. */
enum { FENCED, FENCED_OTHERS, MET, ACQUIRED, FENCED_BEFORE, PUBLISHED, FLAGGED, PENDING, FLAGS = 2, TIMES = PENDING + FLAGS };
enum { PLACES = 1 << 16, PLACE_BITS = 4 };
struct pending { uint32_t at, since; };
struct look { uint32_t block, last, other; };

static uint32_t *times_of(const struct launch *launch, uint64_t block, uint32_t warps, int which) {
  return launch->times + (block % launch->order_rows * TIMES + which) * warps;
}
static uint32_t *mine(const struct warp *w, int which) { return times_of(w->launch, w->block_id, w->warps, which); }
static int noted(const struct launch *launch) { return launch->times && launch->precise; }
static void raise_to(uint32_t *time, uint32_t other) { *time = *time < other ? other : *time; }

static uint32_t place_of(uint64_t address) {
  const uint64_t words = address >> PLACE_BITS;
  return (words ^ words >> 16) & (PLACES - 1);
}

static struct pending *pending_of(const struct launch *launch, uint64_t block) {
  return (struct pending *)launch->pending + block % launch->order_rows * FLAGS;
}

/* Another block than this has looked at its flag since. */
static int seen(const struct launch *launch, uint64_t block, const struct pending *flag) {
  if (!flag->at) return 0;
  const struct look *look = (const struct look *)launch->looks + flag->at - 1;
  return (look->block != block + 1 ? look->last : look->other) > flag->since;
}

static void raise_all(uint32_t *times, const uint32_t *others, uint32_t warps) {
  for (uint32_t i = 0; i < warps; i++) raise_to(&times[i], others[i]);
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
    if (arrived[i]) {
      raise_to(&others, mine(w, FENCED_OTHERS)[i]);
      raise_to(&seen, mine(w, ACQUIRED)[i]);
    }
  for (uint32_t i = 0; i < k->warp_count; i++) {
    raise_to(&mine(w, FENCED_BEFORE)[i], others);
    if (!arrived[i]) continue;
    raise_to(&mine(w, FENCED_BEFORE)[i], mine(w, FENCED)[i]);
    mine(w, MET)[i] = *k->launch->clock;
    mine(w, ACQUIRED)[i] = seen;
  }
  ++*k->launch->clock;
}

/* Something orders some warps of the block, and all count. */
void block_order_all_meet(struct worker *k) {
  uint32_t live[LANES];
  warp_races_advance(k);
  for (uint32_t i = 0; i < k->warp_count; i++) live[i] = k->warps[i].live;
  block_order_meet(k, live);
}

/* Published until then, from when another block looks at the place; of several, at once. */
static void hold(struct warp *w, const uint32_t *until, const uint64_t *address, uint32_t m) {
  struct pending *flags = pending_of(w->launch, w->block_id), *chosen = flags;
  const uint32_t place = place_of(address[LOWEST(m)]);
  uint32_t *published = mine(w, PUBLISHED), several = 0, new = 0;
  for (uint32_t i = 0; i < w->warps; i++) new |= until[i] > published[i];
  if (!new) return;
  LANES_OF(m, l) several |= place_of(address[l]) != place;
  uint64_t best = ~(uint64_t)0;
  for (int f = 0; f < FLAGS; f++) {
    const int looked = seen(w->launch, w->block_id, &flags[f]);
    if (looked) raise_all(published, mine(w, PENDING + f), w->warps);
    const uint64_t choice = flags[f].at == place + 1 ? 0 : looked || !flags[f].at ? 1 : (uint64_t)flags[f].since + 2;
    if (choice < best) {
      best = choice;
      chosen = &flags[f];
    }
  }
  if (several) {
    raise_all(published, until, w->warps);
    return;
  }
  uint32_t *held = mine(w, PENDING + (chosen - flags));
  if (best) {
    raise_all(published, held, w->warps);
    memset(held, 0, w->warps * sizeof *held);
  }
  raise_all(held, until, w->warps);
  chosen->at = place + 1;
  chosen->since = *w->launch->clock;
}

static void publish(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, int flags) {
  const struct launch *launch = w->launch;
  if (site->releases) fence(w);
  const uint32_t others = mine(w, FENCED_OTHERS)[w->index], met = mine(w, MET)[w->index];
  uint32_t until[LANES], *flagged = mine(w, FLAGGED);
  memcpy(until, mine(w, FENCED_BEFORE), w->warps * sizeof *until);
  for (uint32_t i = 0; i < w->warps; i++) {
    raise_to(&until[i], others);
    if (flags) raise_to(&flagged[i], met);
  }
  raise_to(&until[w->index], mine(w, FENCED)[w->index]);
  hold(w, until, address, m);
  if (flags) flagged[w->index] = *launch->clock;
  LANES_OF(m, l) launch->places[place_of(address[l])] = *launch->clock;
  ++*launch->clock;
}

static void acquire(struct warp *w, uint32_t place) {
  struct look *look = (struct look *)w->launch->looks + place;
  raise_to(&mine(w, ACQUIRED)[w->index], w->launch->places[place]);
  if (look->block != (uint64_t)w->block_id + 1) {
    look->other = look->last;
    look->block = w->block_id + 1;
  }
  look->last = *w->launch->clock;
}

/* A block that updates looks at what was there before. */
void block_synchronise(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, int flags) {
  const struct launch *launch = w->launch;
  if (m) warp_synchronise(w, site, address, m, flags);
  if (!m || !noted(launch)) return;
  /* Where the grid meets: that is seen once all are there (grid.c). */
  if (launch->meeting_place && address[LOWEST(m)] - launch->meeting_place < 8) return;
  if (!flags && !site->sums) LANES_OF(m, l) acquire(w, place_of(address[l]));
  if (site->writes) publish(w, site, address, m, flags);
}

/* Whether what a thread of block `first` did at that time comes before what the warp does now. */
int block_ordered(const struct warp *w, uint64_t first, uint32_t thread, uint32_t when, int wrote) {
  const struct launch *launch = w->launch;
  if (!noted(launch) || when > mine(w, ACQUIRED)[w->index]) return 0;
  const uint32_t at = thread / LANES;
  for (int f = 0; f < FLAGS; f++)
    if (when <= times_of(launch, first, w->warps, PENDING + f)[at] && seen(launch, first, pending_of(launch, first) + f)) return 1;
  return first == (uint64_t)w->block_id || when <= times_of(launch, first, w->warps, PUBLISHED)[at] ||
         (!wrote && when <= times_of(launch, first, w->warps, FLAGGED)[at]);
}

void block_order_restart(const struct launch *launch) {
  if (!launch->times) return;
  const uint32_t warps = (launch->block[0] * launch->block[1] * launch->block[2] + LANES - 1) / LANES;
  const uint64_t rows = launch->order_rows;
  memset(launch->times, 0, rows * TIMES * warps * sizeof *launch->times);
  memset(launch->places, 0, PLACES * sizeof *launch->places);
  memset(launch->pending, 0, rows * FLAGS * sizeof(struct pending));
  memset(launch->looks, 0, PLACES * sizeof(struct look));
}
