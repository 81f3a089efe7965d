/* cp.async: copies from global to shared memory that arrive when their group is waited for. */
#include <stdlib.h>
#include <string.h>
#include "machine.h"

struct copy {
  const struct site *site; /* of the store to shared memory */
  uint32_t lanes;
  uint64_t serial;
  int64_t group[LANES]; /* how many groups each lane had committed before */
  uint64_t target[LANES];
  uint8_t values[LANES * 16] ALIGNED;
};
struct copies {
  int64_t committed[LANES];
  uint64_t serial; /* of the next */
  struct copy *waiting;
  size_t count, room;
};

/* One more, or one fewer, in flight to each word of the lanes' targets. */
static void fly(struct worker *k, const struct copy *copy, uint32_t lanes, int step) {
  LANES_OF(lanes, l) {
    const uint64_t end = copy->target[l] + copy->site->size;
    if (end > k->launch->shared_limit) continue; /* the store itself will fault */
    for (uint64_t at = copy->target[l] / 4; at < end / 4; at++) k->flying[at] += step;
    k->in_flight += step;
  }
}

void flying_set_up(struct worker *k) {
  if (!k->flying && !(k->flying = calloc(k->launch->shared_limit / 4 + 1, sizeof *k->flying))) abort();
}

static struct copies *copies_of(struct warp *w) {
  struct worker *k = w->worker;
  flying_set_up(k);
  if (!w->copies && !(w->copies = calloc(1, sizeof *w->copies))) abort();
  return w->copies;
}

static struct copy *added(struct copies *c) {
  if (c->count == c->room) {
    struct copy *more = NULL;
    c->room = c->room ? 2 * c->room : 8;
    if (posix_memalign((void **)&more, 64, c->room * sizeof *more)) abort();
    if (c->count) memcpy(more, c->waiting, c->count * sizeof *more);
    free(c->waiting);
    c->waiting = more;
  }
  return &c->waiting[c->count++];
}

void copy_begin(struct warp *w, const struct site *reads, const struct site *writes, const uint64_t *target,
                const uint64_t *source, uint32_t m, const uint32_t *wanted) {
  if (!m) return;
  uint8_t values[LANES * 16] ALIGNED;
  uint32_t some = m;
  if (wanted) EACH some &= ~((uint32_t)!wanted[l] << l);
  load(w, reads, GLOBAL, source, some, values);
  if (wanted)
    EACH if (wanted[l] < reads->size) memset(values + l * reads->size + wanted[l], 0, reads->size - wanted[l]);
  if (w->worker->writer && !w->worker->order) { /* an mbarrier may order it behind the readers */
    shared_places(w, writes, target, m);
    race_copy_begins(w, writes, target, m);
  }
  struct copies *c = copies_of(w);
  struct copy *copy = added(c);
  copy->site = writes;
  copy->lanes = m;
  copy->serial = c->serial++;
  memcpy(copy->group, c->committed, sizeof copy->group);
  memcpy(copy->target, target, sizeof copy->target);
  memcpy(copy->values, values, sizeof values);
  fly(w->worker, copy, m, 1);
}

void copies_commit(struct warp *w, uint32_t m) {
  struct copies *c = copies_of(w);
  LANES_OF(m, l) c->committed[l]++;
}

/* Lets these lanes' copies arrive; the lanes whose do not yet. */
static uint32_t under_way(struct warp *w, struct copy *copy, uint32_t done) {
  fly(w->worker, copy, done, -1);
  store(w, copy->site, SHARED, copy->target, done, copy->values);
  return copy->lanes &= ~done;
}

/* Completes all groups of the lanes but the newest `pending`; with `all` also what none closed. */
void copies_wait(struct warp *w, uint32_t m, int64_t pending, int all) {
  struct copies *c = copies_of(w);
  if (all) copies_commit(w, m);
  size_t kept = 0;
  for (size_t i = 0; i < c->count; i++) {
    struct copy *copy = &c->waiting[i];
    uint32_t done = 0;
    LANES_OF(copy->lanes & m, l) done |= (uint32_t)(copy->group[l] < c->committed[l] - pending) << l;
    if (!under_way(w, copy, done)) continue;
    if (kept != i) c->waiting[kept] = *copy;
    kept++;
  }
  c->count = kept;
}

uint64_t copies_serial(struct warp *w) { return copies_of(w)->serial; }

/* Lets the lanes' copies arrive that were begun before the one of that number. */
void copies_deliver(struct warp *w, uint32_t lanes, uint64_t before) {
  struct copies *c = copies_of(w);
  size_t kept = 0;
  for (size_t i = 0; i < c->count; i++) {
    struct copy *copy = &c->waiting[i];
    const uint32_t done = copy->serial < before ? copy->lanes & lanes : 0;
    if (!under_way(w, copy, done)) continue;
    if (kept != i) c->waiting[kept] = *copy;
    kept++;
  }
  c->count = kept;
}

void copies_forget(struct warp *w) {
  if (w->copies) {
    memset(w->copies->committed, 0, sizeof w->copies->committed);
    w->copies->count = 0;
  }
}

void copies_free(struct warp *w) {
  if (w->copies) free(w->copies->waiting);
  free(w->copies);
}

static void unarrived(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, uint32_t flying) {
  w->worker->fault.address = address;
  fault_at(w, flying >= FLYING_BULK ? UNARRIVED_BULK : MISSING_WAIT, site->instruction, lane);
}

/* The same for a bulk copy that reads. */
void check_span_arrived(struct warp *w, const struct site *site, uint32_t lane, uint64_t start, uint64_t size) {
  const struct worker *k = w->worker;
  uint32_t flying = 0;
  for (uint64_t at = start / 4; k->in_flight && at < (start + size) / 4; at++)
    flying = k->flying[at] > flying ? k->flying[at] : flying;
  if (flying) unarrived(w, site, lane, start, flying);
}

/* Faults where a read meets bytes that a copy is still in flight to. */
void check_arrived(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  const struct worker *k = w->worker;
  LANES_OF(m, l)
    for (uint64_t at = address[l] / 4; at <= (address[l] + site->size - 1) / 4; at++)
      if (k->flying[at]) unarrived(w, site, l, address[l], k->flying[at]);
}
