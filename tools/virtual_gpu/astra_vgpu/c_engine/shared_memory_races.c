/* Races on shared memory, between warps and within one, as shared_memory_races.py finds them: two accesses of different threads to
 * the same bytes, one of them a write that changes them, and nothing in between that orders them. A write of what is there already
 * counts as a read. */
#include <stdlib.h>
#include <string.h>
#include "machine.h"
#include "stamps.h"

/* A barrier of the block opened. */
void next_epoch(struct worker *k) {
  for (uint32_t i = 0; i < k->warp_count; i++) {
    k->warps[i].syncs = k->fenced[i] = k->posted[i] = 0;
    memset(k->seen[i], 0, k->warp_count * sizeof *k->seen[i]);
  }
  warp_races_advance(k);
  if (!k->writer) return;
  if (++k->epoch < BIT(64 - EPOCH) / LANES) return;
  const size_t bytes = (k->launch->shared_limit / k->launch->race_granule + 1) * sizeof *k->writer;
  memset(k->writer, 0, bytes);
  memset(k->reader, 0, bytes);
  if (k->adder) memset(k->adder, 0, bytes);
  k->epoch = 1;
}

/* Orders the whole warp, whichever lanes are active: a missed race is better than a false positive. */
void meet(struct warp *w, uint32_t m) {
  if (!m) return;
  order_meet(w, m);
  if (++w->syncs == MAX_SYNCS) next_epoch(w->worker);
}

/* What the warp did so far may be posted by an atomic operation of it. */
void shared_fence(struct warp *w, uint32_t m) {
  if (m) w->worker->fenced[w->index] = w->syncs + 1;
}

/* An atomic operation on shared memory whose result is of use: it posts what lies before a fence, and looks at what others posted. */
void shared_flag(struct warp *w) {
  struct worker *k = w->worker;
  k->posted[w->index] = k->fenced[w->index];
  for (uint32_t i = 0; i < k->warp_count; i++)
    if (i != w->index && k->posted[i] > k->seen[w->index][i]) k->seen[w->index][i] = k->posted[i];
}

/* Whether such operations order what another warp's stamp says before what the warp does now. */
static int is_posted(const struct warp *w, uint64_t stamp) {
  return (stamp >> SYNC & MAX_SYNCS) < w->worker->seen[w->index][stamp >> WARP & 31];
}

static uint64_t stamp_of(const struct warp *w, const struct site *site) {
  const uint64_t known = site->instruction < UNKNOWN_SITE ? site->instruction : UNKNOWN_SITE;
  /* Between warps mbarrier_races.c looks where mbarriers order them: here no two are ever in the same epoch then. */
  const uint64_t epoch = w->worker->epoch * (uint64_t)LANES + (w->worker->order ? w->index : 0);
  return epoch << EPOCH | (uint64_t)w->index << WARP | w->syncs << SYNC | known;
}

static void race(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, uint64_t stamp, enum verb verb) {
  struct fault *fault = &w->worker->fault;
  fault->address = address;
  fault->other = stamp & UNKNOWN_SITE;
  fault->detail[0] = verb;
  fault->detail[1] = (stamp >> WARP & 31) * LANES + (stamp >> LANE & 31);
  fault->detail[2] = stamp >> MANY & 1;
  fault->detail[3] = site->size;
  fault->detail[4] = site->writes;
  fault_at(w, RACE, site->instruction, lane);
}

#define GRANULES(l, at) \
  for (uint64_t at = address[l] >> k->granule_bits; at < (address[l] + site->size) >> k->granule_bits; at++)

/* Of readers, and of atomic operations that changed something. */
static void not_met(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, uint64_t known, uint64_t mine,
                    enum verb verb) {
  if ((between(known ^ mine) && !is_posted(w, known)) || within(known ^ mine)) race(w, site, lane, address, known, verb);
}

/* Of lanes that wrote the same value, one's own may be among them. */
static void not_written(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, uint64_t at, uint64_t mine) {
  const uint64_t known = w->worker->writer[at], apart = known ^ mine;
  if ((between(apart) && !is_posted(w, known)) || (within(apart) && !(known & BIT(SEVERAL)))) race(w, site, lane, address, known, WROTE);
}

void race_read(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  struct worker *k = w->worker;
  const uint64_t here = stamp_of(w, site);
  LANES_OF(m, l) GRANULES(l, at) {
    const uint64_t mine = here | (uint64_t)l << LANE;
    not_written(w, site, l, address[l], at, mine);
    if (k->adder) not_met(w, site, l, address[l], k->adder[at], mine, CHANGED);
    k->reader[at] = joined(k->reader[at], mine);
  }
}

/* A cp.async may arrive from now on, whatever it brings: nobody may still read there. */
void race_copy_begins(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  const struct worker *k = w->worker;
  const uint64_t here = stamp_of(w, site);
  LANES_OF(m, l) GRANULES(l, at) not_met(w, site, l, address[l], k->reader[at], here | (uint64_t)l << LANE, READ);
}

/* A bulk copy of the data begins: no other lane of its warp may still use what it changes. */
void race_bulk_copy_begins(struct warp *w, const struct site *site, uint32_t lane, uint64_t start, uint64_t size,
                           const uint8_t *data) {
  const struct worker *k = w->worker;
  if (!k->writer) return;
  const uint32_t granule = w->launch->race_granule;
  const uint64_t mine = stamp_of(w, site) | (uint64_t)lane << LANE;
  const struct site one = {.instruction = site->instruction, .size = granule, .writes = site->writes};
  for (int pass = 0; pass < 2; pass++)
    for (uint64_t at = start / granule; at < (start + size) / granule; at++) {
      const uint64_t offset = at * granule - start, known = pass ? k->reader[at] : k->writer[at];
      if (!memcmp(k->shared + start + offset, data + offset, granule) || !within(known ^ mine)) continue;
      if (pass || !(known & BIT(SEVERAL))) race(w, &one, lane, at * granule, known, pass ? READ : WROTE);
    }
}

/* An atomic operation was done; `changed`: whose place holds another value than found. */
void race_update(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, uint32_t changed) {
  struct worker *k = w->worker;
  const uint64_t here = stamp_of(w, site);
  if (!k->adder) k->adder = calloc(w->launch->shared_limit / w->launch->race_granule + 1, sizeof *k->adder);
  if (!k->adder) abort();
  LANES_OF(m, l) GRANULES(l, at) {
    const uint64_t mine = here | (uint64_t)l << LANE;
    not_written(w, site, l, address[l], at, mine);
    if (!(changed >> l & 1)) continue;
    not_met(w, site, l, address[l], k->reader[at], mine, READ);
    k->adder[at] = joined(k->adder[at], mine);
  }
}

static uint64_t bits_of(const uint8_t *at, uint32_t bytes) {
  uint64_t bits = 0;
  memcpy(&bits, at, bytes);
  return bits & ~BIT(8 * bytes - 1);
}

int alike(const struct site *site, const void *one, const void *other) {
  if (!memcmp(one, other, site->size)) return 1;
  const uint32_t bytes = site->float_bytes;
  for (uint32_t at = 0; bytes && at < site->size; at += bytes) {
    const uint8_t *a = (const uint8_t *)one + at, *b = (const uint8_t *)other + at;
    const int nans = bits_of(a, bytes) > site->infinity && bits_of(b, bytes) > site->infinity;
    if (!nans && memcmp(a, b, bytes)) return 0;
  }
  return bytes != 0;
}

/* Two lanes, one place, two values: the last one's are there. */
static void check_alike(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m,
                        const uint8_t *values, const uint8_t *after) {
  if (m == ~0u && !memcmp(values, after, LANES * site->size)) return;
  LANES_OF(m, l) {
    if (alike(site, values + l * site->size, after + l * site->size)) continue;
    uint32_t last = l;
    LANES_OF(m, other) if (address[other] == address[l]) last = other;
    race(w, site, l, address[l], stamp_of(w, site) | (uint64_t)last << LANE, AT_ONCE);
  }
}

void race_write(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, const uint8_t *before,
                const uint8_t *values, const uint8_t *after) {
  struct worker *k = w->worker;
  const uint64_t here = stamp_of(w, site);
  uint32_t changed = 0;
  check_alike(w, site, address, m, values, after);
  LANES_OF(m, l) {
    if (alike(site, before + l * site->size, values + l * site->size)) continue;
    changed |= (uint32_t)1 << l;
    GRANULES(l, at) {
      const uint64_t mine = here | (uint64_t)l << LANE;
      not_written(w, site, l, address[l], at, mine);
      not_met(w, site, l, address[l], k->reader[at], mine, READ);
      if (k->adder) not_met(w, site, l, address[l], k->adder[at], mine, CHANGED);
    }
  }
  LANES_OF(changed, l) GRANULES(l, at) {
    const uint64_t mine = here | (uint64_t)l << LANE;
    k->writer[at] = mine | (uint64_t)within(k->writer[at] ^ mine) << SEVERAL;
  }
  LANES_OF(m & ~changed, l) GRANULES(l, at) k->reader[at] = joined(k->reader[at], here | (uint64_t)l << LANE);
}
