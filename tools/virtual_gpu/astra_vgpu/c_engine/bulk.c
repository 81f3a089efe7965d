/* Bulk copies between global and shared memory: one lane, many bytes (bulk.py says how). */
#include <stdlib.h>
#include <string.h>
#include "lanes.h"
#include "mbarriers.h"

#define COPY_CYCLES 75 /* beyond a load, and bytes in a cycle (first_touch.py) */
#define COPY_BYTES 32

struct reading { uint32_t lane, instruction; int64_t group; uint64_t start, size; uint8_t *pieces; int read; };
struct bulk {
  int64_t committed[LANES];
  struct reading *readings;
  size_t count, room;
};

static struct bulk *bulk_of(struct warp *w) {
  struct worker *k = w->worker;
  if (!k->unread) k->unread = calloc(w->launch->shared_limit / 4 + 1, sizeof *k->unread);
  if (!w->bulk) w->bulk = calloc(1, sizeof *w->bulk);
  if (!k->unread || !w->bulk) abort();
  return w->bulk;
}

void bulk_forget(struct warp *w) {
  if (w->bulk) {
    memset(w->bulk->committed, 0, sizeof w->bulk->committed);
    w->bulk->count = 0;
  }
}

/* Once the block has ended. Faults. */
void bulk_check_done(struct warp *w) {
  const struct reading *first = NULL;
  for (size_t i = 0; w->bulk && i < w->bulk->count; i++) {
    const struct reading *r = &w->bulk->readings[i];
    if (!r->read && (!first || r->lane < first->lane)) first = r;
  }
  if (first) fault_at(w, STILL_READ_AT_END, first->instruction, first->lane);
}

void bulk_free(struct warp *w) {
  if (w->bulk) free(w->bulk->readings);
  free(w->bulk);
}

static void note(struct worker *k, const struct reading *r, int step) {
  for (uint64_t at = r->start / 4; at < (r->start + r->size) / 4; at++) k->unread[at] += step;
  k->reading += step;
}

static void still_read(struct warp *w, const struct site *site, uint32_t lane, uint64_t offset) {
  w->worker->fault.address = offset;
  fault_at(w, COPY_STILL_READING, site->instruction, lane);
}

/* Faults where a write meets bytes that a copy out of shared memory still reads. */
void check_unread(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  const struct worker *k = w->worker;
  LANES_OF(m, l)
    for (uint64_t at = address[l] / 4; at <= (address[l] + site->size - 1) / 4; at++)
      if (k->unread[at]) still_read(w, site, l, address[l]);
}

static void bad_span(struct warp *w, const struct site *site, enum fault_kind kind, uint32_t lane, enum space space,
                     uint64_t address, uint64_t size) {
  struct fault *fault = &w->worker->fault;
  fault->address = address;
  fault->space = space;
  fault->detail[3] = size;
  fault->detail[4] = site->writes;
  fault_at(w, kind, site->instruction, lane);
}

/* The bytes in global memory. Faults. */
static uint8_t *checked_span(struct warp *w, const struct site *reads, const struct site *writes, uint32_t lane,
                             int to_shared, uint64_t on_chip, uint64_t off_chip, uint64_t size) {
  const uint64_t from = to_shared ? off_chip : on_chip, to = to_shared ? on_chip : off_chip;
  const struct site *inner = to_shared ? writes : reads, *outer = to_shared ? reads : writes;
  if (from % 16) bad_span(w, reads, MISALIGNED, lane, GLOBAL, from, size);
  if (to % 16) bad_span(w, writes, MISALIGNED, lane, GLOBAL, to, size);
  if (size % 16) bad_span(w, reads, BAD_SIZE, lane, GLOBAL, from, size);
  if (!holds_span(w, off_chip, size)) bad_span(w, outer, OUT_OF_BOUNDS, lane, GLOBAL, off_chip, size);
  if (!(w->waited >> lane & 1) && find_buffer(w->launch, off_chip)->early <= outer->writes)
    bad_span(w, outer, EARLY_ACCESS, lane, GLOBAL, off_chip, size);
  if (on_chip > w->launch->shared_limit || w->launch->shared_limit - on_chip < size)
    bad_span(w, inner, OUT_OF_BOUNDS, lane, SHARED, on_chip, size);
  const struct buffer *b = find_buffer(w->launch, off_chip);
  for (uint64_t at = 0; to_shared && b->unfinished && at < size; at += 16)
    if (*unfinished_at(b, off_chip + at)) bad_span(w, reads, UNFINISHED_STORE, lane, GLOBAL, off_chip, size);
  return (uint8_t *)off_chip;
}

/* Notes a copy to global memory. Faults where it adds to what another one may still be writing. Returns what its bytes wait for. */
static uint8_t *begin_store(struct warp *w, const struct site *writes, uint32_t lane, uint64_t to, uint64_t size, int reduces) {
  const struct buffer *b = find_buffer(w->launch, to);
  if (!b->unfinished) return NULL;
  uint8_t *pieces = unfinished_at(b, to);
  for (uint64_t i = 0; i < size / 16; i++) {
    if (reduces && pieces[i] == COPIED) bad_span(w, writes, UNFINISHED_STORE, lane, GLOBAL, to, size);
    pieces[i] = reduces ? REDUCED : COPIED;
  }
  return pieces;
}

/* One more, or one fewer, bulk copy in flight to each word. */
static void fly(struct worker *k, uint64_t start, uint64_t size, int64_t step) {
  for (uint64_t at = start / 4; at < (start + size) / 4; at++) k->flying[at] += step;
  k->in_flight += step;
}

/* The bytes are read now, and have arrived when the mbarrier's phase ends. */
void bulk_to_shared(struct warp *w, const struct site *reads, const struct site *writes, const struct site *barrier,
                    const uint64_t *to, const uint64_t *from, const uint32_t *sizes, const uint64_t *mbarrier,
                    uint32_t m) {
  if (!m) return;
  struct worker *k = w->worker;
  shared_places(w, barrier, mbarrier, m);
  flying_set_up(k);
  LANES_OF(m, l) {
    const uint8_t *data = checked_span(w, reads, writes, l, 1, to[l], from[l], sizes[l]);
    struct state s;
    struct record *r = record_at(w, barrier->instruction, l, mbarrier[l], &s);
    const uint64_t sectors = k->counters.block_sectors;
    count_span(w, reads, from[l], sizes[l]);
    const int fresh = k->counters.block_sectors > sectors;
    for (uint64_t at = to[l] / 4; k->unread && at < (to[l] + sizes[l]) / 4; at++)
      if (k->unread[at]) still_read(w, writes, l, to[l]);
    ordered_write_span(w, writes, l, to[l], sizes[l], data);
    race_bulk_copy_begins(w, writes, l, to[l], sizes[l], data);
    fly(k, to[l], sizes[l], FLYING_BULK);
    struct event *event = add_event(r);
    event->bytes = event->size = sizes[l];
    event->start = to[l];
    event->rounds = (struct rounds){w->rounds + 1, fresh_rounds(w) + fresh, COPY_CYCLES + sizes[l] / COPY_BYTES};
    if (!(event->data = malloc(sizes[l] + 1))) abort();
    memcpy(event->data, data, sizes[l]);
  }
}

void land_copy(struct worker *k, const struct event *event) {
  fly(k, event->start, event->size, -FLYING_BULK);
  memcpy(k->shared + event->start, event->data, event->size);
  if (k->filled) memset(k->filled + event->start, 1, event->size);
}

#define REDUCE(type, how) \
  for (uint64_t i = 0; i < size / sizeof(type); i++) { \
    type *const a = (type *)to + i; \
    const type b = ((const type *)from)[i]; \
    *a = how; \
  }
#define INTEGERS(types, how) \
  switch (type) { \
    case BULK_U32: REDUCE(uint32_t, how) break; \
    case BULK_S32: REDUCE(int32_t, how) break; \
    case BULK_S64: REDUCE(int64_t, how) break; \
    default: REDUCE(uint64_t, how) break; \
  }
static void reduce(uint8_t *to, const uint8_t *from, uint64_t size, enum bulk_reduction how, enum bulk_type type) {
  if (how == BULK_ADD && type == BULK_F32) REDUCE(float, l2_add(*a, b))
  else if (how == BULK_ADD && type == BULK_F64) REDUCE(double, *a + b)
  else if (how == BULK_ADD) INTEGERS(, *a + b)
  else if (how == BULK_MIN) INTEGERS(, (b < *a ? b : *a))
  else if (how == BULK_MAX) INTEGERS(, (b > *a ? b : *a))
  else if (how == BULK_AND) INTEGERS(, *a & b)
  else if (how == BULK_OR) INTEGERS(, *a | b)
  else INTEGERS(, *a ^ b)
}

/* The bytes are written now; those in shared memory count as read until the group is waited for. */
void bulk_to_global(struct warp *w, const struct site *reads, const struct site *writes, const uint64_t *to,
                    const uint64_t *from, const uint32_t *sizes, uint32_t m, enum bulk_reduction how,
                    enum bulk_type type) {
  if (!m) return;
  struct worker *k = w->worker;
  struct bulk *bulk = bulk_of(w);
  LANES_OF(m, l) {
    uint8_t *there = checked_span(w, reads, writes, l, 0, from[l], to[l], sizes[l]);
    const uint8_t *data = k->shared + from[l];
    check_span_arrived(w, reads, l, from[l], sizes[l]);
    ordered_read_span(w, reads, l, from[l], sizes[l]);
    uint8_t *pieces = begin_store(w, writes, l, to[l], sizes[l], how != BULK_COPY);
    if (how == BULK_COPY) memcpy(there, data, sizes[l]);
    else reduce(there, data, sizes[l], how, type);
    count_span(w, writes, to[l], sizes[l]);
    if (bulk->count == bulk->room) {
      bulk->room = bulk->room ? 2 * bulk->room : 8;
      if (!(bulk->readings = realloc(bulk->readings, bulk->room * sizeof *bulk->readings))) abort();
    }
    bulk->readings[bulk->count++] = (struct reading){l, reads->instruction, bulk->committed[l], from[l], sizes[l], pieces, 0};
    note(k, &bulk->readings[bulk->count - 1], 1);
  }
}

void bulk_commit(struct warp *w, uint32_t m) {
  struct bulk *bulk = bulk_of(w);
  LANES_OF(m, l) bulk->committed[l]++;
}

/* Until all groups of the lanes but the newest `left` are read, and have written unless reads are all that is waited for. */
void bulk_wait(struct warp *w, uint32_t m, int64_t left, int reads_only) {
  struct bulk *bulk = bulk_of(w);
  size_t kept = 0;
  for (size_t i = 0; i < bulk->count; i++) {
    struct reading r = bulk->readings[i];
    const int over = m >> r.lane & 1 && r.group < bulk->committed[r.lane] - left;
    if (over && !r.read) note(w->worker, &r, -1);
    r.read |= over;
    if (over && r.pieces && !reads_only) memset(r.pieces, FINISHED, r.size / 16);
    if (!over || (r.pieces && reads_only)) bulk->readings[kept++] = r;
  }
  bulk->count = kept;
}
