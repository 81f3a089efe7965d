/* Loads, stores and atomics: every address is checked, then counted, then used. */
#include <string.h>
#include "machine.h"

static void bad_access(struct warp *w, const struct site *site, enum fault_kind kind, enum space space, uint32_t lane,
                       uint64_t address) {
  w->worker->fault.address = address;
  w->worker->fault.space = space;
  w->worker->fault.detail[3] = site->size;
  w->worker->fault.detail[4] = site->writes;
  fault_at(w, kind, site->instruction, lane);
}

/* Lanes that are not there take the place of one that is. */
static void filled(const uint64_t *address, uint32_t m, uint64_t *out) {
  const uint64_t some = address[LOWEST(m)];
  EACH out[l] = m >> l & 1 ? address[l] : some;
}

static void check_aligned(struct warp *w, const struct site *site, enum space space, const uint64_t *address,
                          uint32_t m) {
  uint64_t any = 0;
  EACH any |= address[l];
  if (any & (site->size - 1)) {
    uint32_t lane = LOWEST(m);
    LANES_OF(m, l) if (address[l] & (site->size - 1)) { lane = l; break; }
    bad_access(w, site, MISALIGNED, space, lane, address[lane]);
  }
}

const struct buffer *find_buffer(const struct launch *launch, uint64_t address) {
  size_t low = 0, high = launch->buffer_count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (launch->buffers[middle].address <= address) low = middle + 1;
    else high = middle;
  }
  return low && address < launch->buffers[low - 1].end ? &launch->buffers[low - 1] : NULL;
}

static int holds(const struct buffer *buffer, uint64_t first, uint64_t last, uint32_t size) {
  return buffer && first >= buffer->address && last <= buffer->end && buffer->end - last >= size;
}

static const struct buffer *held(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  uint64_t low = ~(uint64_t)0, high = 0;
  EACH low = address[l] < low ? address[l] : low;
  EACH high = address[l] > high ? address[l] : high;
  check_aligned(w, site, GLOBAL, address, m);
  const struct buffer **hint = &w->worker->hints[site->number];
  if (holds(*hint, low, high, site->size)) return *hint;
  const struct buffer *buffer = find_buffer(w->launch, low);
  if (holds(buffer, low, high, site->size)) return *hint = buffer;
  LANES_OF(m, l) {
    const struct buffer *each = find_buffer(w->launch, address[l]);
    if (!holds(each, address[l], address[l], site->size)) bad_access(w, site, OUT_OF_BOUNDS, GLOBAL, l, address[l]);
  }
  return NULL;
}

/* These lanes have not waited for the work ahead of the launch: early_accesses.py. Faults. */
static void check_waited(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                         uint32_t m) {
  LANES_OF(m, l) {
    const struct buffer *b = buffer ? buffer : find_buffer(w->launch, address[l]);
    if (b->early <= site->writes) bad_access(w, site, EARLY_ACCESS, GLOBAL, l, address[l]);
  }
}

/* A bulk copy may still be writing there: bulk_stores.py. values: those of a store, or null. Faults. */
static void check_finished(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                           uint32_t m, const uint8_t *values) {
  if (buffer && !buffer->unfinished) return;
  LANES_OF(m, l) {
    const struct buffer *b = buffer ? buffer : find_buffer(w->launch, address[l]);
    if (!b->unfinished || !*unfinished_at(b, address[l])) continue;
    if (!values || !alike(site, (const void *)address[l], values + l * site->size)) bad_access(w, site, UNFINISHED_STORE, GLOBAL, l, address[l]);
  }
}

/* The buffer of a whole warp's access, or null where it is spread over several. Faults. */
static const struct buffer *checked(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  const struct buffer *buffer = held(w, site, address, m);
  const int lane = w->launch->has_heap ? not_allocated(w, site, buffer, address, m) : -1;
  if (lane >= 0) bad_access(w, site, OUT_OF_BOUNDS, GLOBAL, lane, address[lane]);
  if (m & ~w->waited) check_waited(w, site, buffer, address, m & ~w->waited);
  return buffer;
}

static void mark(struct warp *w, const struct site *site, const struct buffer *buffer, uint64_t address,
                 uint64_t bytes) {
  if (site->writes && buffer->written) memset(buffer->written + (address - buffer->address), 1, bytes);
  uint8_t *sectors = site->writes ? buffer->stored : buffer->loaded;
  if (w->launch->visits && sectors) {
    const uint64_t first = buffer->address / 32, from = address / 32, to = (address + bytes - 1) / 32;
    memset(sectors + (from - first), 1, to - from + 1);
    count_touched(w, site, buffer, from - first, to - first);
  }
}

static void mark_each(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                      uint32_t m) {
  if (!w->launch->visits && !site->writes) return;
  LANES_OF(m, l) mark(w, site, buffer ? buffer : find_buffer(w->launch, address[l]), address[l], site->size);
}

static int contiguous(const uint64_t *address, uint32_t size) {
  uint64_t differ = 0;
  EACH differ |= address[l] ^ (address[0] + (uint64_t)l * size);
  return !differ;
}

static void take(const struct site *site, const uint64_t *place, uint32_t m, void *data) {
  if (m == ~0u) BY_SIZE(EACH ((item *)data)[l] = *(const item *)place[l])
  else BY_SIZE(LANES_OF(m, l) ((item *)data)[l] = *(const item *)place[l])
}
static void give(const struct site *site, const uint64_t *place, uint32_t m, const void *data) {
  if (m == ~0u) BY_SIZE(EACH *(item *)place[l] = ((const item *)data)[l])
  else BY_SIZE(LANES_OF(m, l) *(item *)place[l] = ((const item *)data)[l])
}

static void load_global(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, void *data) {
  count_global(w, site, address, m);
  const struct buffer *buffer = checked(w, site, address, m);
  if (!buffer || buffer->starts_uninitialized) check_set(w, site, buffer, address, m);
  check_finished(w, site, buffer, address, m, NULL);
  const int in_a_row = m == ~0u && buffer && contiguous(address, site->size);
  if (site->ordered) block_synchronise(w, site, address, m, 0);
  if (w->launch->watched && (!buffer || buffer->writers)) {
    if (site->ordered) block_race_flag(w, site, buffer, address, m);
    else if (in_a_row && !w->launch->precise) block_race_span_read(w, site, buffer, address[0], LANES * site->size);
    else block_race_read(w, site, buffer, address, m);
  }
  if (w->launch->stamped && !site->ordered && (!buffer || buffer->stamp_writers)) warp_race_read(w, site, buffer, address, m);
  if (in_a_row) {
    mark(w, site, buffer, address[0], LANES * site->size);
    BY_SIZE(memcpy(data, (const void *)address[0], LANES * sizeof(item)))
    return;
  }
  mark_each(w, site, buffer, address, m);
  take(site, address, m, data);
}

static void store_global(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m,
                         const void *data) {
  count_global(w, site, address, m);
  const struct buffer *buffer = checked(w, site, address, m);
  check_finished(w, site, buffer, address, m, data);
  const int in_a_row = m == ~0u && buffer && contiguous(address, site->size);
  if (site->ordered) block_synchronise(w, site, address, m, 1);
  if (w->launch->watched && (!buffer || buffer->writers)) {
    if (site->ordered) block_race_flag(w, site, buffer, address, m);
    else if (in_a_row && !w->launch->precise) block_race_span_write(w, site, buffer, address[0], LANES * site->size);
    else block_race_write(w, site, buffer, address, m, data);
  }
  if (w->launch->stamped && !site->ordered && (!buffer || buffer->stamp_writers))
    warp_race_write(w, site, buffer, address, m, data);
  if (in_a_row) {
    mark(w, site, buffer, address[0], LANES * site->size);
    BY_SIZE(memcpy((void *)address[0], data, LANES * sizeof(item)))
    return;
  }
  mark_each(w, site, buffer, address, m);
  give(site, address, m, data);
}

static uint32_t limit_of(const struct launch *launch, enum space space) {
  return space == SHARED ? launch->shared_limit : space == LOCAL ? launch->local_bytes : launch->param_bytes;
}

/* Where the bytes from `low` to before `high` lie in one of the arrays that the instruction may access. */
static int inside(const struct site *site, uint64_t low, uint64_t high) {
  for (int a = 0; a < site->arrays; a++)
    if (low >= site->array[a].start && high <= site->array[a].end) return 1;
  return 0;
}

/* Faults for an access beyond the array that its address was computed from, even where another one lies there. */
static void check_arrays(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  uint64_t low = ~(uint64_t)0, high = 0;
  EACH low = address[l] < low ? address[l] : low;
  EACH high = address[l] > high ? address[l] : high;
  if (inside(site, low, high + site->size)) return;
  LANES_OF(m, l) if (!inside(site, address[l], address[l] + site->size)) bad_access(w, site, OUT_OF_BOUNDS, SHARED, l, address[l]);
}

/* Host addresses of an access to shared, local or parameter memory. Faults. */
static void on_chip(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
                    uint64_t *place) {
  const uint64_t limit = limit_of(w->launch, space);
  LANES_OF(m, l) if (address[l] > limit || limit - address[l] < site->size)
    bad_access(w, site, OUT_OF_BOUNDS, space, l, address[l]);
  if (space == SHARED && site->arrays) check_arrays(w, site, address, m);
  check_aligned(w, site, space, address, m);
  struct worker *k = w->worker;
  const size_t lane = space == LOCAL ? k->local_stride : 0;
  const uint8_t *base = space == SHARED ? k->shared
                        : space == LOCAL ? k->local + (size_t)w->index * LANES * lane
                                         : w->params;
  EACH place[l] = (uint64_t)base + l * lane + address[l];
}

/* Checks an access to shared memory. Faults. */
void shared_places(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  uint64_t place[LANES] ALIGNED, full[LANES] ALIGNED;
  filled(address, m, full);
  on_chip(w, site, SHARED, full, m, place);
}

int holds_span(const struct warp *w, uint64_t address, uint64_t size) {
  const struct buffer *buffer = find_buffer(w->launch, address);
  return buffer && buffer->end - address >= size;
}

/* Counts a bulk copy of bytes in a row, which is one request. */
void count_span(struct warp *w, const struct site *site, uint64_t address, uint64_t size) {
  w->worker->line_count = 0;
  mark(w, site, find_buffer(w->launch, address), address, size ? size : 1);
  if (!w->launch->visits) return;
  struct counters *c = &w->worker->counters;
  const uint64_t last = address + (size ? size : 1) - 1;
  const uint64_t sectors = last / 32 - address / 32 + 1, lines = last / 128 - address / 128 + 1;
  if (site->writes) {
    c->store_requests++;
    c->store_sectors += sectors;
    c->store_lines += lines;
    c->store_bytes += size;
  } else {
    c->load_requests++;
    c->load_sectors += sectors;
    c->load_lines += lines;
    c->load_bytes += size;
  }
  if (site->writes) count_span_packets(w, sectors, lines, size);
}

static void load_on_chip(struct warp *w, const struct site *site, enum space space, const uint64_t *address,
                         uint32_t m, void *data) {
  uint64_t place[LANES] ALIGNED;
  on_chip(w, site, space, address, m, place);
  if (space == SHARED) {
    count_shared(w, site, address, m);
    if (w->worker->in_flight) check_arrived(w, site, address, m);
    if (site->decides) block_order_all_meet(w->worker);
    if (w->worker->order && !site->ordered) ordered_read(w, site, address, m);
    if (w->worker->writer && !site->ordered) race_read(w, site, address, m);
    if (w->worker->filled) check_filled(w, site, address, m);
  }
  if (space == LOCAL && !site->in_registers) count_local(w, site, address, m);
  if (space == PARAM) { /* not aligned as the host wants it */
    LANES_OF(m, l) memcpy((uint8_t *)data + l * site->size, (const void *)place[l], site->size);
    return;
  }
  take(site, place, m, data);
}

static void store_on_chip(struct warp *w, const struct site *site, enum space space, const uint64_t *address,
                          uint32_t m, const void *data) {
  uint64_t place[LANES] ALIGNED;
  on_chip(w, site, space, address, m, place);
  if (space == SHARED) {
    count_shared(w, site, address, m);
    if (w->worker->reading) check_unread(w, site, address, m);
    if (w->worker->order && !site->ordered) {
      uint8_t before[LANES * 16] ALIGNED;
      take(site, place, m, before);
      ordered_write(w, site, address, m, before, data);
    }
    fill(w, site, address, m);
    if (w->worker->writer && !site->ordered) {
      uint8_t before[LANES * 16] ALIGNED, after[LANES * 16] ALIGNED;
      take(site, place, m, before);
      give(site, place, m, data);
      take(site, place, m, after);
      race_write(w, site, address, m, before, data, after);
      return;
    }
  }
  if (space == LOCAL && !site->in_registers) count_local(w, site, address, m);
  give(site, place, m, data);
}

/* Calls `part` for the lanes of each space that generic addresses lead to. */
typedef void part(struct warp *, const struct site *, enum space, const uint64_t *, uint32_t, void *);
static void split(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, void *data,
                  part *each) {
  static const uint8_t windows[] = {[GLOBAL] = 0, [SHARED] = SHARED_WINDOW, [LOCAL] = LOCAL_WINDOW, [PARAM] = PARAM_WINDOW};
  uint32_t rest = m;
  for (enum space space = GLOBAL; space <= PARAM && rest; space++) {
    uint32_t mine = 0;
    EACH mine |= (uint32_t)(address[l] >> 56 == windows[space]) << l;
    if (!(mine &= rest)) continue;
    uint64_t inner[LANES] ALIGNED, full[LANES] ALIGNED;
    EACH inner[l] = address[l] & (((uint64_t)1 << 56) - 1);
    filled(inner, mine, full);
    each(w, site, space, full, mine, data);
    rest &= ~mine;
  }
  if (rest) bad_access(w, site, OUT_OF_BOUNDS, GLOBAL, LOWEST(rest), address[LOWEST(rest)]);
}

/* Constants have a cache of their own: they do not count as traffic of global memory. */
static void load_constant(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, void *data) {
  checked(w, site, address, m);
  take(site, address, m, data);
}

static void load_part(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
                      void *data) {
  if (space == GLOBAL) load_global(w, site, address, m, data);
  else if (space == CONSTANT) load_constant(w, site, address, m, data);
  else load_on_chip(w, site, space, address, m, data);
}
static void store_part(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
                       void *data) {
  if (space == GLOBAL) store_global(w, site, address, m, data);
  else store_on_chip(w, site, space, address, m, data);
}
static void atomic_part(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
                        void *data) {
  uint64_t *place = data, found[LANES] ALIGNED;
  if (space == GLOBAL) {
    count_global(w, site, address, m);
    const struct buffer *buffer = checked(w, site, address, m);
    check_finished(w, site, buffer, address, m, NULL);
    if ((!buffer || buffer->starts_uninitialized) && !site->blind) check_set(w, site, buffer, address, m);
    if (w->launch->watched && (!buffer || buffer->writers)) block_race_update(w, site, buffer, address, m);
    if (w->launch->stamped && (!buffer || buffer->stamp_writers)) warp_race_update(w, site, buffer, address, m);
    block_synchronise(w, site, address, m, 0);
    mark_each(w, site, buffer, address, m);
    if (w->launch->visits) {
      const struct buffer *buffers[LANES];
      EACH buffers[l] = buffer ? buffer : find_buffer(w->launch, address[l]);
      count_atomics(w, site, buffers, address, m);
    }
    memcpy(found, address, sizeof found);
  } else {
    on_chip(w, site, space, address, m, found);
    if (space == SHARED) {
      if (w->launch->reserved_at) next_epoch(w->worker); /* so tiles of several warps meet */
      if (w->launch->reserved_at || !site->sums) block_order_all_meet(w->worker); /* as do others, by what they find */
      if (site->releases) shared_fence(w, m);
      if (!site->sums) shared_flag(w);
      (site->ordered == COUNT_ATOMIC ? count_shared : count_shared_atomics)(w, site, address, m);
      if (w->worker->filled && !site->blind) check_filled(w, site, address, m);
      fill(w, site, address, m);
    }
  }
  LANES_OF(m, l) place[l] = found[l];
}

static void access(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
                   void *data, part *each) {
  uint64_t full[LANES] ALIGNED;
  if (m != ~0u) {
    filled(address, m, full);
    address = full;
  }
  if (space == GENERIC) split(w, site, address, m, data, each);
  else each(w, site, space, address, m, data);
}
/* Lanes that are not there get zeros, as in the NumPy engine. */
void load(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m, void *data) {
  if (m != ~0u) memset(data, 0, LANES * site->size);
  if (m) access(w, site, space, address, m, data, load_part);
}
void store(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
           const void *data) {
  if (m) access(w, site, space, address, m, (void *)data, store_part);
}
void atomic_places(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
                   uint8_t **place) {
  if (m) access(w, site, space, address, m, place, atomic_part);
}

/* After an atomic operation: `found` is what the lanes found at `place`. */
void atomic_done(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
                 uint8_t *const *place, const void *found) {
  if (!w->worker->writer || w->worker->order || w->launch->reserved_at) return;
  uint64_t inner[LANES] ALIGNED;
  uint32_t shared = 0, changed = 0;
  LANES_OF(m, l) {
    if (space == GENERIC && address[l] >> 56 != SHARED_WINDOW) continue;
    inner[l] = address[l] & (((uint64_t)1 << 56) - 1);
    shared |= (uint32_t)1 << l;
    changed |= (uint32_t)(memcmp(place[l], (const uint8_t *)found + l * site->size, site->size) != 0) << l;
  }
  if (shared) race_update(w, site, inner, shared, changed);
}
