/* Races on shared memory between warps, as races.py finds them: two accesses to the same bytes, one
 * of them a write that changes them, with no barrier in between. A stamp is epoch * 64 + warp + 1. */
#include <string.h>
#include "machine.h"

enum { MANY = 63 };

static uint32_t stamp_of(const struct warp *w) { return w->worker->epoch << 6 | (w->index + 1); }
static int is_other(uint32_t stamp, uint32_t mine) { return stamp >> 6 == mine >> 6 && stamp != mine; }

static void race(struct warp *w, const struct site *site, uint32_t lane, uint32_t stamp, int wrote) {
  w->worker->fault.other = stamp & 63;
  w->worker->fault.detail[0] = wrote;
  w->worker->fault.detail[3] = site->size;
  w->worker->fault.detail[4] = site->writes;
  fault_at(w, RACE, site->instruction, lane);
}

void race_read(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  struct worker *k = w->worker;
  const uint32_t granule = w->launch->race_granule, mine = stamp_of(w);
  LANES_OF(m, l) for (uint64_t at = address[l] / granule; at < (address[l] + site->size) / granule; at++) {
    if (is_other(k->writer[at], mine)) race(w, site, l, k->writer[at], 1);
    k->reader[at] = is_other(k->reader[at], mine) ? (mine & ~63u) | MANY : mine;
  }
}

void race_write(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, const uint8_t *before,
                const uint8_t *values) {
  struct worker *k = w->worker;
  const uint32_t granule = w->launch->race_granule, mine = stamp_of(w);
  LANES_OF(m, l) {
    const int changed = memcmp(before + l * site->size, values + l * site->size, site->size) != 0;
    for (uint64_t at = address[l] / granule; at < (address[l] + site->size) / granule; at++) {
      if (changed && is_other(k->writer[at], mine)) race(w, site, l, k->writer[at], 1);
      if (changed && is_other(k->reader[at], mine)) race(w, site, l, k->reader[at], 0);
      if (changed) k->writer[at] = mine;
    }
  }
}
