/* Barriers in shared memory, and what is in flight to them (mbarriers.py says how). */
#ifndef MBARRIERS_H
#define MBARRIERS_H
#include "mbarrier_races.h"

struct state { int64_t pending, expected, bytes; uint32_t phase; };
struct rounds { uint64_t all, fresh, copy_cycles; }; /* fresh: with sectors new to the block; copy_cycles: of the last, if a copy */
struct event {
  int64_t arrivals, bytes;
  uint8_t *data; /* of a bulk copy; null: arrivals of cp.async */
  uint64_t start, size;
  struct warp *warp;
  uint32_t lanes;
  uint64_t serial; /* copies of these lanes before this one */
  struct rounds rounds; /* of loads: those of the warp that began a copy, and that */
};
struct record {
  uint64_t address;
  uint32_t by; /* warp that initialized it, and when */
  int64_t time;
  uint64_t phases; /* that have ended */
  struct event *events;
  size_t count, room;
  clocks before, over[2]; /* what comes before the arrivals so far; before the end of the last phase of each parity */
  struct rounds arrived, ended[2]; /* the same of what has arrived: the most; before the end of the last phases */
};
struct waiting {
  struct warp *warp;
  const struct poll *poll;
  uint32_t lanes, parities;
  uint64_t address[LANES], numbers[LANES]; /* numbers: of the phases whose ends are waited for */
  uint32_t *result;
};
struct mbarriers {
  struct record **records;
  size_t count, room;
  struct waiting *waiting;
  size_t waits, places;
  uint32_t failed_polls; /* failed polls since the last success */
  struct waiting last_failed; /* the last test that failed; no warp once one did not */
};

struct mbarriers *mbarriers_of(struct worker *k);
struct record *record_at(struct warp *w, uint32_t instruction, uint32_t lane, uint64_t address, struct state *state);
struct event *add_event(struct record *r);
int is_mbarrier(const struct worker *k, uint64_t address, struct state *state);
void land_copy(struct worker *k, const struct event *event);
#endif
