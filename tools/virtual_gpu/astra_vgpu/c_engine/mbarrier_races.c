/* The race check of kernels with mbarriers: a vector clock for each warp (mbarrier_races.py says how). */
#include <stdlib.h>
#include <string.h>
#include "mbarrier_races.h"

enum did { READ_BEFORE, WROTE_BEFORE, AT_ONCE };

static size_t granules(const struct worker *k) { return k->launch->shared_limit / k->launch->race_granule + 1; }

static void *zeros(size_t count, size_t size) {
  void *room = calloc(count, size);
  if (!room) abort();
  return room;
}

void order_set_up(struct worker *k) {
  if (!program.orders || !k->launch->race_granule || !k->launch->shared_limit) return;
  struct order *o = k->order = zeros(1, sizeof *o);
  o->written = zeros(granules(k), sizeof *o->written);
  o->since = zeros(granules(k), sizeof *o->since);
  o->by = zeros(granules(k), sizeof *o->by);
  o->readers = zeros(granules(k), sizeof *o->readers);
  o->unfenced = zeros(granules(k), 1);
}

void order_tear_down(struct worker *k) {
  if (!k->order) return;
  free(k->order->unfenced);
  free(k->order->written);
  free(k->order->since);
  free(k->order->by);
  free(k->order->readers);
  free(k->order);
}

/* A barrier of the block opened, or the block begins. */
void order_advance(struct worker *k) {
  struct order *o = k->order;
  if (!o) return;
  o->base = ++o->time;
  for (uint32_t i = 0; i < k->warp_count; i++) o->own[i] = o->time;
  memset(o->ahead_lanes, 0, sizeof o->ahead_lanes);
  memset(o->arrived, 0, sizeof o->arrived);
}

static void join(clocks to, const clocks from) {
  for (int i = 0; i < CLOCK; i++) to[i] = from[i] > to[i] ? from[i] : to[i];
}

/* Joins to `before` what comes before an arrival of these lanes now. */
void release_to(struct warp *w, uint32_t lanes, clocks before) {
  struct order *o = w->worker->order;
  const uint32_t me = w->index;
  if (!o) return;
  join(before, o->seen[me]);
  if (lanes & o->ahead_lanes[me]) join(before, o->ahead[me]);
  if (before[me] < o->own[me]) before[me] = o->own[me];
  o->arrived[me] |= lanes;
  o->own[me] = ++o->time;
}

/* All lanes of the warp see what some have seen. */
static void share(struct order *o, uint32_t me) {
  join(o->seen[me], o->ahead[me]);
  o->ahead_lanes[me] = 0;
}

void acquire_from(struct warp *w, uint32_t lanes, const clocks before) {
  struct order *o = w->worker->order;
  const uint32_t me = w->index;
  if (!o) return;
  if (!o->ahead_lanes[me]) memset(o->ahead[me], 0, sizeof o->ahead[me]);
  join(o->ahead[me], before);
  o->ahead_lanes[me] |= lanes;
  if (!(w->live & ~o->ahead_lanes[me])) share(o, me);
}

/* These lanes of the warp met. */
void order_meet(struct warp *w, uint32_t m) {
  struct order *o = w->worker->order;
  if (!o) return;
  if (m & o->ahead_lanes[w->index]) share(o, w->index);
  o->arrived[w->index] = 0;
}

/* Whether lanes that have passed an mbarrier have met the others of their warp: all of them did, or some of the others may
 * have arrived at it. */
int counts_as_met(const struct warp *w, uint32_t lanes) {
  const struct order *o = w->worker->order;
  return !o || !(w->live & ~lanes) || o->arrived[w->index] & ~lanes;
}

static int64_t seen_of(const struct order *o, uint32_t me, uint32_t lanes, uint32_t by) {
  const int64_t seen = o->seen[me][by], ahead = lanes & o->ahead_lanes[me] ? o->ahead[me][by] : 0;
  return seen > ahead ? seen : ahead;
}

int is_seen(const struct warp *w, uint32_t lanes, uint32_t by, int64_t time) {
  const struct order *o = w->worker->order;
  return !o || by == w->index || time < o->base || seen_of(o, w->index, lanes, by) >= time;
}

/* fence.proxy.async: copies may read what the warp stored, or saw stored. */
void fence_before_copies(struct warp *w, uint32_t m) {
  struct order *o = w->worker->order;
  if (!o || !m) return;
  for (size_t at = 0; at < granules(w->worker); at++)
    if (o->unfenced[at] && is_seen(w, m, o->by[at] / LANES, o->written[at])) o->unfenced[at] = 0;
}

/* A block begins. */
void order_forget(struct worker *k) {
  if (k->order) memset(k->order->unfenced, 0, granules(k));
}

/* A bulk copy arrives; returns when. */
int64_t copied(struct worker *k, uint64_t start, uint64_t size) {
  struct order *o = k->order;
  if (!o) return 0;
  const uint32_t granule = k->launch->race_granule;
  o->time++;
  for (uint64_t at = start / granule; at < (start + size) / granule; at++) {
    o->written[at] = o->time;
    o->by[at] = COPIES * LANES;
    o->readers[at] = o->unfenced[at] = 0;
  }
  return o->time;
}

static void refuse(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, uint32_t other,
                   enum did did) {
  struct fault *fault = &w->worker->fault;
  fault->address = address;
  fault->other = other;
  fault->detail[0] = did;
  fault->detail[3] = site->size;
  fault->detail[4] = site->writes;
  fault_at(w, other / LANES == COPIES ? UNSEEN_COPY : UNORDERED_ACCESS, site->instruction, lane);
}

static void check_writer(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, uint64_t at) {
  const struct order *o = w->worker->order;
  if (!is_seen(w, 1u << lane, o->by[at] / LANES, o->written[at])) refuse(w, site, lane, address, o->by[at], WROTE_BEFORE);
}

static void check_readers(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, uint64_t at) {
  const struct order *o = w->worker->order;
  if (o->since[at] < o->base) return;
  uint32_t late = 0, found = 0;
  LANES_OF(o->readers[at], other)
    if (other != w->index && seen_of(o, w->index, 1u << lane, other) < o->since[at]) {
      late = 1;
      found = other;
    }
  if (late) refuse(w, site, lane, address, found * LANES, READ_BEFORE);
}

static void note_read(struct warp *w, uint64_t at) {
  struct order *o = w->worker->order;
  const int64_t mine = o->own[w->index];
  if (o->since[at] < o->base) o->readers[at] = 0;
  if (!o->readers[at] || o->since[at] > mine) o->since[at] = mine;
  o->readers[at] |= 1u << w->index;
}

#define GRANULES(start, size, at) \
  for (uint64_t at = (start) / w->launch->race_granule; at < ((start) + (size)) / w->launch->race_granule; at++)

void ordered_read(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  LANES_OF(m, l) GRANULES(address[l], site->size, at) {
    check_writer(w, site, l, address[l], at);
    note_read(w, at);
  }
}

void ordered_write(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, const uint8_t *before,
                   const uint8_t *values) {
  struct order *o = w->worker->order;
  LANES_OF(m, l) {
    if (alike(site, before + l * site->size, values + l * site->size)) continue;
    GRANULES(address[l], site->size, at) {
      check_writer(w, site, l, address[l], at);
      check_readers(w, site, l, address[l], at);
    }
    GRANULES(address[l], site->size, at) {
      o->written[at] = o->own[w->index];
      o->by[at] = w->index * LANES + l;
      o->readers[at] = 0;
      o->unfenced[at] = 1;
    }
  }
}

/* A lane begins a copy from these bytes of shared memory. */
void ordered_read_span(struct warp *w, const struct site *site, uint32_t lane, uint64_t start, uint64_t size) {
  if (!w->worker->order) return;
  GRANULES(start, size, at) check_writer(w, site, lane, start, at);
  GRANULES(start, size, at)
    if (w->worker->order->unfenced[at]) {
      w->worker->fault.address = at * w->launch->race_granule;
      fault_at(w, NOT_FENCED, site->instruction, lane);
    }
  GRANULES(start, size, at) note_read(w, at);
}

/* A lane begins a copy of the data to these bytes. */
void ordered_write_span(struct warp *w, const struct site *site, uint32_t lane, uint64_t start, uint64_t size,
                        const uint8_t *data) {
  if (!w->worker->order) return;
  const uint32_t granule = w->launch->race_granule;
  const uint8_t *there = w->worker->shared + start;
  for (int pass = 0; pass < 2; pass++)
    GRANULES(start, size, at) {
      const uint64_t offset = at * granule - start;
      if (!memcmp(there + offset, data + offset, granule)) continue;
      if (pass) check_readers(w, site, lane, start, at);
      else check_writer(w, site, lane, start, at);
    }
}
