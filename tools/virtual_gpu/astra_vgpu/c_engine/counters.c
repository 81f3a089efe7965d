/* Sectors and bank conflicts, counted as the NumPy engine counts them (counters.py). */
#include <stdlib.h>
#include <string.h>
#include "machine.h"

static uint32_t different(const uint64_t *values) {
  uint32_t changes = 0, falls = 0;
  for (int l = 1; l < LANES; l++) changes += values[l] != values[l - 1];
  for (int l = 1; l < LANES; l++) falls |= values[l] < values[l - 1];
  if (!falls) return changes + 1;
  uint32_t count = 0;
  for (int l = 0; l < LANES; l++) {
    uint32_t known = 0;
    for (int k = 0; k < l; k++) known |= values[k] == values[l];
    count += !known;
  }
  return count;
}

/* Most different words that any one bank must deliver. */
static uint32_t conflicts(const int64_t *first, int lanes, int parts) {
  int64_t seen[LANES][LANES];
  uint32_t counts[LANES] = {0}, most = 0;
  for (int l = 0; l < lanes; l++)
    for (int part = 0; part < parts; part++) {
      const int64_t word = first[l] + part;
      const uint32_t bank = word & 31;
      uint32_t known = 0;
      for (uint32_t k = 0; k < counts[bank]; k++) known |= seen[bank][k] == word;
      if (!known) seen[bank][counts[bank]++] = word;
    }
  for (int bank = 0; bank < LANES; bank++) most = counts[bank] > most ? counts[bank] : most;
  return most;
}

/* A warp's access is cut into parts of 128 bytes; those that no lane wants are none. */
static uint32_t wavefronts(const struct site *site, const uint64_t *address, uint32_t m) {
  const int parts = site->size / 4 ? site->size / 4 : 1, lanes = LANES / parts;
  int64_t words[LANES] ALIGNED, highest = 0;
  LANES_OF(m, l) highest = (int64_t)(address[l] / 4) > highest ? (int64_t)(address[l] / 4) : highest;
  EACH words[l] = m >> l & 1 ? (int64_t)(address[l] / 4) : highest;
  uint32_t found = 0;
  for (int start = 0; start < LANES; start += lanes) {
    if (!(m >> start & (0xFFFFFFFFu >> (LANES - lanes)))) continue;
    int64_t low = words[start], high = words[start];
    for (int l = start; l < start + lanes; l++) {
      low = words[l] < low ? words[l] : low;
      high = words[l] > high ? words[l] : high;
    }
    found += high - low + parts <= LANES ? 1 : conflicts(words + start, lanes, parts);
  }
  return found;
}

static int by_size(const void *a, const void *b) {
  const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
  return one < other ? -1 : one > other;
}

/* What L1 hands to L2 for stores of so many bytes: a sector counts as filled if three quarters of all are. */
static uint64_t packets(uint64_t sectors, uint64_t lines, uint64_t bytes) {
  return 2 * lines + sectors * (4 * bytes > 3 * 32 * sectors ? 1 : 2);
}

/* What it hands over for the run of stores that begins here, three times; alone: for this one. */
static uint64_t packet_thirds(const struct site *site, const uint64_t *address, uint64_t bytes, uint64_t alone) {
  if (site->run < 2) return site->run * 3 * alone;
  uint64_t sectors[LANES * MAX_RUN], each = 0, different_sectors = 0, lines = 0, falls = 0;
  const uint32_t count = LANES * site->run;
  for (int s = 0; s < site->run; s++) {
    uint64_t *mine = sectors + LANES * s, line[LANES];
    EACH mine[l] = (address[l] + site->behind[s]) / 32;
    EACH line[l] = mine[l] / 4;
    each += packets(different(mine), different(line), bytes);
  }
  for (uint32_t i = 1; i < count; i++) falls |= sectors[i] < sectors[i - 1];
  if (falls) qsort(sectors, count, sizeof *sectors, by_size);
  for (uint32_t i = 0; i < count; i++) {
    different_sectors += !i || sectors[i] != sectors[i - 1];
    lines += !i || sectors[i] / 4 != sectors[i - 1] / 4;
  }
  const uint64_t thirds = 3 * packets(different_sectors, lines, bytes * site->run);
  const int few = site->run * (site->size > 4 ? site->size / 4 : 1) <= FEW_TURNS;
  return few || thirds > 2 * each ? thirds : 2 * each;
}

void count_global(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  if (!w->launch->visits) return;
  w->worker->line_count = 0;
  uint64_t sectors[LANES] ALIGNED, lines[LANES] ALIGNED;
  EACH sectors[l] = address[l] / 32;
  EACH lines[l] = address[l] / 128;
  struct counters *c = &w->worker->counters;
  const uint32_t count = different(sectors), apart = different(lines), bytes = site->size * __builtin_popcount(m);
  if (site->writes) {
    c->store_lines += apart;
    const uint64_t alone = packets(count, apart, bytes);
    c->store_packets += alone;
    c->store_packet_thirds += packet_thirds(site, address, bytes, alone);
    c->store_requests++;
    c->store_sectors += count;
    c->store_bytes += bytes;
  } else {
    c->load_lines += apart;
    c->load_requests++;
    c->load_sectors += count;
    c->load_bytes += bytes;
    c->load_wavefronts += wavefronts(site, address, m);
  }
}

/* Words of the lanes of a warp lie side by side: eight lanes share a sector. */
void count_local(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  struct worker *k = w->worker;
  if (!w->launch->visits) return;
  const size_t own = local_words(w->launch) * 4;
  if (!k->local_touched && !(k->local_touched = calloc(k->warp_count, own))) abort();
  uint8_t *const touched = k->local_touched + w->index * own;
  const uint32_t words = site->size / 4 ? site->size / 4 : 1;
  uint32_t sectors = 0;
  for (uint32_t eight = 0; eight < 4; eight++) {
    uint64_t known[8];
    uint32_t count = 0;
    LANES_OF(m >> 8 * eight & 0xFF, l) {
      const uint64_t word = address[8 * eight + l] / 4;
      uint32_t there = 0;
      for (uint32_t i = 0; i < count; i++) there |= known[i] == word;
      if (there) continue;
      known[count++] = word;
      for (uint32_t part = 0; part < words; part++) {
        uint8_t *const mark = &touched[(word + part) * 4 + eight];
        k->counters.local_unique_sectors += !*mark;
        *mark = 1;
      }
    }
    sectors += count * words;
  }
  if (site->writes) {
    k->counters.local_store_requests += words;
    k->counters.local_store_sectors += sectors;
  } else {
    k->counters.local_load_requests += words;
    k->counters.local_load_sectors += sectors;
  }
}

/* A copy of bytes in a row. */
void count_span_packets(struct warp *w, uint64_t sectors, uint64_t lines, uint64_t bytes) {
  const uint64_t found = packets(sectors, lines, bytes);
  w->worker->counters.store_packets += found;
  w->worker->counters.store_packet_thirds += 3 * found;
}

static void *counts_of(void **table, uint64_t entries, size_t size) {
  if (!*table && !(*table = calloc(entries, size))) abort();
  return *table;
}

/* Of the request's lines, those with a sector that is new to the block; in order, where they are more than lanes. */
static void new_line(struct warp *w, uint64_t line, int reads) {
  struct worker *k = w->worker;
  for (uint32_t i = k->line_count; i-- > 0;)
    if (k->lines[i] == line) return;
  k->lines[k->line_count] = line;
  k->line_count += k->line_count < LANES;
  k->counters.block_lines += reads;
}

/* Sectors first to last of a buffer are read, or stored, which puts them into L1 too: which are new to the block, which come late, rounds
   after they were touched? */
void count_touched(struct warp *w, const struct site *site, const struct buffer *buffer, uint64_t first, uint64_t last) {
  struct worker *k = w->worker;
  struct touch *touched = counts_of((void **)&k->touched[buffer - w->launch->buffers],
                                    (buffer->end + 31) / 32 - buffer->address / 32 + 1, sizeof *touched);
  const uint32_t round = w->rounds;
  uint64_t fresh = 0, late = 0;
  for (uint64_t sector = first; sector <= last; sector++) {
    struct touch *t = &touched[sector];
    if (t->turn != k->turn) {
      fresh++;
      new_line(w, (buffer->address / 32 + sector) / 4, !site->writes);
    } else {
      late += (t->round > round ? t->round - round : round - t->round) > 1;
    }
    *t = (struct touch){k->turn, round};
  }
  if (site->writes) return;
  k->counters.block_sectors += fresh;
  k->counters.late_sectors += late;
  if (fresh && site->turns) w->pending_rounds |= (uint64_t)1 << (site->rounds[1 + w->turn % site->turns] - 1);
}

/* A sector of a request takes as many turns as its most wanted address has lanes; a warp's integers at one address
   are gathered to one. */
void count_atomics(struct warp *w, const struct site *site, const struct buffer *const *buffers, const uint64_t *address,
                   uint32_t m) {
  struct worker *k = w->worker;
  const int floats = site->ordered == FLOAT_ATOMIC;
  uint32_t done = 0;
  LANES_OF(m, l) {
    if (done >> l & 1) continue;
    const struct buffer *buffer = buffers[l];
    const uint64_t sector = address[l] / 32, first = buffer->address / 32;
    uint32_t turns = 0, alone = !floats;
    LANES_OF(m, o) {
      if (buffers[o] != buffer) continue;
      alone &= address[o] == address[l];
      if (address[o] / 32 != sector) continue;
      uint32_t same = 0;
      LANES_OF(m, p) same += address[p] == address[o];
      turns = same > turns ? same : turns;
      done |= 1u << o;
    }
    if (alone) turns = 1;
    const uint64_t sectors = (buffer->end + 31) / 32 - first + 1;
    uint64_t *counts = counts_of((void **)&k->atomics[buffer - w->launch->buffers], 2 * sectors, sizeof *counts);
    counts[sector - first] += turns;
    counts[sectors + sector - first] += floats ? turns : 0;
    k->counters.atomic_turns += turns;
  }
  k->counters.atomic_lanes += __builtin_popcount(m);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Launches with atomics on global memory have one worker: its sectors are the launch's. */
void count_regions(struct worker *k) {
  struct counters *c = &k->counters;
  for (uint64_t b = 0; b < k->launch->buffer_count; b++) {
    const struct buffer *buffer = &k->launch->buffers[b];
    const uint64_t *counts = k->atomics[b], first = buffer->address / 32, sectors = (buffer->end + 31) / 32 - first + 1;
    if (!counts) continue;
    uint64_t region = 0;
    for (uint64_t s = 0; s < sectors; s++) {
      if (s % (REGION_BYTES / 32) == 0) region = 0;
      region += counts[s];
      c->hottest_turns = larger(c->hottest_turns, region);
      c->float_turns = larger(c->float_turns, counts[sectors + s]);
    }
  }
}

/* The blocks of a cooperative launch have a worker each: the first gets the sectors of all. */
void gather_atomics(const struct launch *launch, struct worker *blocks) {
  for (uint64_t b = 0; b < launch->buffer_count; b++) {
    const uint64_t sectors = (launch->buffers[b].end + 31) / 32 - launch->buffers[b].address / 32 + 1;
    for (uint64_t i = 1; i < launch->block_count; i++) {
      uint64_t *mine = blocks[i].atomics[b];
      if (!mine) continue;
      uint64_t *all = counts_of((void **)&blocks[0].atomics[b], 2 * sectors, sizeof *all);
      for (uint64_t s = 0; s < 2 * sectors; s++) all[s] += mine[s];
    }
  }
}

/* Atomics: a turn for each lane that wants a bank, whatever its word; more for floats, which try until they succeed. */
void count_shared_atomics(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  if (!w->launch->visits) return;
  uint32_t lanes[LANES] = {0}, most = 0;
  LANES_OF(m, l) {
    const uint32_t wanted = ++lanes[address[l] / 4 % LANES];
    most = wanted > most ? wanted : most;
  }
  w->worker->counters.shared_requests++;
  w->worker->counters.shared_wavefronts += site->ordered == FLOAT_ATOMIC ? FLOAT_TRIES * most : most;
}

void count_shared(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  if (!w->launch->visits) return;
  w->worker->counters.shared_requests++;
  w->worker->counters.shared_wavefronts += wavefronts(site, address, m);
}

/* isa/clocks.py */
enum { MAX_SLEEP_NS = 1000000, LONG_WAIT_NS = 10000, PART_OF_WAIT_BITS = 10 };
#define ENDLESS_WAIT_NS ((uint64_t)1 << 42)

/* On the way into a basic block: in a loop that waits for a clock, and waits long, each instruction sleeps. */
void pass_time(struct warp *w, const struct mix *mix) {
  if (mix->wait != w->clock_wait) {
    w->clock_wait = mix->wait;
    w->clock_wait_from = ELAPSED(w);
  }
  const uint64_t waited = ELAPSED(w) - w->clock_wait_from;
  if (waited >= LONG_WAIT_NS && waited < ENDLESS_WAIT_NS) w->slept_ns += waited * mix->instructions >> PART_OF_WAIT_BITS;
}

/* A warp waits for its lane that sleeps longest. */
void nano_sleep(struct warp *w, uint32_t m, const uint32_t *asked_ns) {
  uint32_t longest = 0;
  LANES_OF(m, l) longest = asked_ns[l] > longest ? asked_ns[l] : longest;
  w->slept_ns += longest < MAX_SLEEP_NS ? longest : MAX_SLEEP_NS;
}

/* result: of each lane, those with the same value. */
void count_match(struct warp *w, uint32_t m, const uint32_t *result) {
  if (!w->launch->visits) return;
  uint32_t values = 0;
  LANES_OF(m, l) values += LOWEST(result[l]) == l;
  w->matches += values;
  w->worker->counters.match_turns += values;
}

/* Loads of constants at addresses that the kernel computes: the constant cache serves a warp word by word. */
void count_constants(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  if (!m || !w->launch->visits) return;
  const uint32_t width = site->size > 4 ? site->size : 4;
  uint64_t words[LANES];
  EACH words[l] = address[m >> l & 1 ? l : LOWEST(m)] / width;
  const uint32_t count = different(words);
  w->worker->counters.constant_requests++;
  w->worker->counters.constant_words += count;
  w->constants += count - 1;
}

/* Tiles of a matrix that are turned over in registers, by the unit of shared memory. */
void count_turned(struct warp *w, uint32_t m, uint32_t tiles) {
  if (m && w->launch->visits) w->worker->counters.shared_wavefronts += tiles;
}
