/* Races on global memory between threads of a block, as memory/warp_races.py has them. Workers share the stamps of a buffer: no
 * two of them, and no two blocks, are ever in the same epoch. */
#include <string.h>
#include "machine.h"
#include "stamps.h"

enum { FLAG_PLACES = 64, FLAG_PLACE_BITS = 4 };

/* A block begins: its warps have seen no flag. */
void warp_races_begin(struct worker *k) {
  memset(k->released, 0, sizeof k->released);
  memset(k->acquired, 0, sizeof k->acquired);
  memset(k->flag_places, 0, sizeof k->flag_places);
  k->flag_clock = 1;
}

/* Something ordered the block's warps. */
void warp_races_advance(struct worker *k) { k->stamp_epoch += k->workers; }

/* Epochs are left: without, nothing more is checked. */
static int is_on(const struct worker *k) { return k->stamp_epoch + 1 < BIT(64 - EPOCH); }

static uint32_t place_of(uint64_t address) { return (address >> FLAG_PLACE_BITS) % FLAG_PLACES; }

/* An atomic or ordered operation; flags: it stores, and looks at nothing. */
void warp_synchronise(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, int flags) {
  struct worker *k = w->worker;
  if (!w->launch->stamped) return;
  LANES_OF(m, l) {
    const uint32_t place = place_of(address[l]);
    if (site->writes) k->released[w->index] = k->flag_places[place] = k->flag_clock;
  }
  if (!flags && !site->sums)
    LANES_OF(m, l) {
      const uint32_t seen = k->flag_places[place_of(address[l])];
      if (seen > k->acquired[w->index]) k->acquired[w->index] = seen;
    }
  k->flag_clock++;
}

static uint32_t warp_of(uint64_t stamp) { return stamp >> WARP & 31; }

/* Whether a flag orders what the stamp's warp did at that time before what the warp does now. */
static int is_ordered(const struct warp *w, uint64_t stamp, const uint32_t *times, uint64_t at) {
  const struct worker *k = w->worker;
  const uint32_t other = warp_of(stamp);
  if (!times || times[at] > k->acquired[w->index]) return 0;
  return other == w->index || times[at] <= k->released[other];
}

static uint64_t stamp_of(const struct warp *w, const struct site *site) {
  const uint32_t number = w->launch->stamp_numbers[site->instruction];
  return (w->worker->stamp_epoch + 1) << EPOCH | (uint64_t)w->index << WARP | w->syncs << SYNC | (number < UNKNOWN_SITE ? number : 0);
}

static void race(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, uint64_t stamp, enum verb verb) {
  struct fault *fault = &w->worker->fault;
  fault->address = address;
  fault->other = stamp & UNKNOWN_SITE;
  fault->detail[0] = verb;
  fault->detail[1] = warp_of(stamp) * LANES + (stamp >> LANE & 31);
  fault->detail[2] = stamp >> MANY & 1;
  fault->detail[3] = site->size;
  fault->detail[4] = site->writes;
  fault_at(w, WARP_RACE, site->instruction, lane);
}

static void not_met(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, const uint64_t *stamps,
                    const uint32_t *times, uint64_t at, uint64_t mine, enum verb verb) {
  if (!stamps) return;
  const uint64_t known = stamps[at], apart = known ^ mine;
  if (!between(apart) && (!within(apart) || (verb == WROTE && known & BIT(SEVERAL)))) return;
  if (!is_ordered(w, known, times, at)) race(w, site, lane, address, known, verb);
}

static void note(struct warp *w, uint64_t *stamps, uint32_t *times, uint64_t at, uint64_t mine) {
  const uint64_t known = stamps[at];
  stamps[at] = between(known ^ mine) && is_ordered(w, known, times, at) ? mine : joined(known, mine);
  if (times) times[at] = w->worker->flag_clock;
}

#define EACH_STAMP(b, l, at) \
  for (uint64_t at = (address[l] >> b->stamp_bits) - (b->address >> b->stamp_bits), \
                last_ = ((address[l] + site->size - 1) >> b->stamp_bits) - (b->address >> b->stamp_bits); \
       at <= last_; at++)

/* A load, or an atomic operation that updates what is there. */
static void read_or_update(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                           uint32_t m, int updates) {
  if (!is_on(w->worker)) return;
  const uint64_t here = stamp_of(w, site);
  LANES_OF(m, l) {
    const struct buffer *b = buffer ? buffer : find_buffer(w->launch, address[l]);
    if (!b->stamp_writers) continue;
    EACH_STAMP(b, l, at) {
      const uint64_t mine = here | (uint64_t)l << LANE;
      not_met(w, site, l, address[l], b->stamp_writers, b->stamp_writer_times, at, mine, WROTE);
      if (!updates) {
        not_met(w, site, l, address[l], b->stamp_adders, b->stamp_adder_times, at, mine, CHANGED);
        note(w, b->stamp_readers, b->stamp_reader_times, at, mine);
      } else if (site->sums && b->stamp_adders) {
        note(w, b->stamp_adders, b->stamp_adder_times, at, mine);
      }
    }
  }
}

void warp_race_read(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address, uint32_t m) {
  read_or_update(w, site, buffer, address, m, 0);
}

void warp_race_update(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address, uint32_t m) {
  read_or_update(w, site, buffer, address, m, 1);
}

/* Two lanes, one place, two values: of these the last one's stay. */
static void check_alike(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, const uint8_t *values) {
  uint64_t before = 0;
  int apart = 1;
  LANES_OF(m, l) {
    apart &= address[l] > before;
    before = address[l];
  }
  if (apart) return;
  LANES_OF(m, l) {
    uint32_t last = l;
    LANES_OF(m, other) if (address[other] == address[l]) last = other;
    if (last == l || alike(site, values + l * site->size, values + last * site->size)) continue;
    race(w, site, l, address[l], stamp_of(w, site) | (uint64_t)last << LANE, AT_ONCE);
  }
}

/* Before the store. */
void warp_race_write(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address, uint32_t m,
                     const uint8_t *values) {
  if (!is_on(w->worker)) return;
  const uint64_t here = stamp_of(w, site);
  uint32_t changed = 0, there = 0;
  LANES_OF(m, l) {
    const struct buffer *b = buffer ? buffer : find_buffer(w->launch, address[l]);
    if (!b->stamp_writers) continue;
    there |= (uint32_t)1 << l;
    if (alike(site, (const void *)address[l], values + l * site->size)) continue;
    changed |= (uint32_t)1 << l;
    EACH_STAMP(b, l, at) {
      const uint64_t mine = here | (uint64_t)l << LANE;
      not_met(w, site, l, address[l], b->stamp_writers, b->stamp_writer_times, at, mine, WROTE);
      not_met(w, site, l, address[l], b->stamp_readers, b->stamp_reader_times, at, mine, READ);
      not_met(w, site, l, address[l], b->stamp_adders, b->stamp_adder_times, at, mine, CHANGED);
    }
  }
  if (changed) check_alike(w, site, address, there, values);
  LANES_OF(changed, l) {
    const struct buffer *b = buffer ? buffer : find_buffer(w->launch, address[l]);
    EACH_STAMP(b, l, at) {
      const uint64_t mine = here | (uint64_t)l << LANE;
      b->stamp_writers[at] = mine | (uint64_t)within(b->stamp_writers[at] ^ mine) << SEVERAL;
      if (b->stamp_writer_times) b->stamp_writer_times[at] = w->worker->flag_clock;
    }
  }
  LANES_OF(there & ~changed, l) {
    const struct buffer *b = buffer ? buffer : find_buffer(w->launch, address[l]);
    EACH_STAMP(b, l, at) note(w, b->stamp_readers, b->stamp_reader_times, at, here | (uint64_t)l << LANE);
  }
}
