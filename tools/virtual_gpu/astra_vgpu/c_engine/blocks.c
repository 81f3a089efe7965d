/* Thread blocks: their warps in turn, and the host's threads that run them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "machine.h"

#define TURN 4096 /* instructions of a warp, until another of its block may run: batch.py */
#define QUEUE_WORDS ((program.blocks + 63) / 64)

void fault_at(struct warp *w, enum fault_kind kind, uint32_t instruction, uint32_t lane) {
  struct fault *fault = &w->worker->fault;
  fault->kind = kind;
  fault->instruction = instruction;
  fault->warp = w->index;
  fault->lane = lane;
  fault->block = w->block_id;
  longjmp(w->worker->stopped, 1);
}
void stop(struct warp *w, enum fault_kind kind, uint32_t instruction, uint32_t m) {
  fault_at(w, kind, instruction, LOWEST(m));
}
void failed_assertion(struct warp *w, uint32_t instruction, uint32_t m, const uint32_t *slots) {
  const uint32_t lane = LOWEST(m);
  const uint8_t *mine = w->worker->local + ((size_t)w->index * LANES + lane) * w->worker->local_stride;
  for (int i = 0; i < 4; i++) memcpy(&w->worker->fault.detail[i], mine + slots[i], 8);
  fault_at(w, ASSERTION, instruction, lane);
}

static uint64_t spent(const struct warp *w) { return w->steps + w->idle + w->empty; }

/* Beyond the point where waiting lanes will come back the others do not go: they would miss them there. */
int next_block(struct warp *w) {
  if (spent(w) >= w->turn_ends) return -1;
  for (uint32_t word = 0; word < QUEUE_WORDS; word++)
    if (w->queue[word]) {
      const uint32_t next = 64 * word + __builtin_ctzll(w->queue[word]);
      return next < w->back ? (int)next : -1;
    }
  return -1;
}

static void visit(struct warp *w, int block, uint32_t m) {
  const struct mix *mix = &program.mixes[block];
  struct worker *k = w->worker;
  w->steps += mix->instructions;
  w->empty += !mix->instructions;
  w->cycles += mix->cycles;
  w->loads += mix->loads;
  if (mix->head && (w->region != (uint32_t)block || ++w->turn >= mix->turns)) {
    w->fresh_rounds += __builtin_popcountll(w->pending_rounds);
    w->rounds += mix->rounds;
    w->pending_rounds = 0;
    w->turn = 0;
    w->region = block;
  }
  w->visits[block]++;
  k->counters.lane_instructions += (uint64_t)mix->instructions * __builtin_popcount(m);
}

/* The lanes that run the block now. */
uint32_t enter(struct warp *w, int block) {
  const uint32_t m = w->pending[block];
  w->pending[block] = 0;
  w->queue[block / 64] &= ~((uint64_t)1 << block % 64);
  visit(w, block, m);
  if (program.mixes[block].wait | w->clock_wait) pass_time(w, &program.mixes[block]);
  if (w->waits_at && w->waits_at->rejoined[block / 64] >> block % 64 & 1) w->skipped |= m;
  if (spent(w) > w->launch->budget) check_in_vain(w->worker);
  if (spent(w) > w->launch->budget) fault_at(w, TIMEOUT, program.mixes[block].instruction, LOWEST(m));
  return m;
}

void send(struct warp *w, int block, uint32_t lanes) {
  if (!lanes) return;
  if (program.mixes[block].only_leaves) {
    visit(w, block, lanes);
    w->live &= ~lanes;
    return;
  }
  w->pending[block] |= lanes;
  w->queue[block / 64] |= (uint64_t)1 << block % 64;
}

void parted(struct warp *w) { w->worker->counters.divergent_branches++; }

static void leave(uint8_t *memory, uint16_t bits, uint64_t bytes) {
  uint64_t at = 0, word = bits * 0x0001000100010001u;
  for (; at + 8 <= bytes; at += 8) memcpy(memory + at, &word, 8);
  memcpy(memory + at, &word, bytes - at);
}

static void begin(struct worker *k, int64_t id) {
  const struct launch *launch = k->launch;
  leave(k->shared, launch->left_there, launch->shared_limit);
  leave(k->local, launch->left_there, k->local_stride * LANES * k->warp_count);
  if (k->local_touched) memset(k->local_touched, 0, local_words(launch) * 4 * k->warp_count);
  if (k->filled) memset(k->filled, 0, launch->shared_limit);
  if (launch->reserved_at) {
    memset(k->shared + launch->reserved_at, 0, launch->shared_limit - launch->reserved_at);
    memset(k->filled + launch->reserved_at, 1, launch->shared_limit - launch->reserved_at);
  }
  k->arrived = k->pauses = 0;
  if (k->in_flight) memset(k->flying, 0, (launch->shared_limit / 4 + 1) * sizeof *k->flying);
  k->in_flight = 0;
  if (k->reading) memset(k->unread, 0, (launch->shared_limit / 4 + 1) * sizeof *k->unread);
  k->reading = 0;
  mbarriers_forget(k);
  order_advance(k);
  order_forget(k);
  k->turn++;
  warp_races_begin(k);
  next_epoch(k);
  for (uint32_t i = 0; i < k->warp_count; i++) {
    struct warp *w = &k->warps[i];
    w->block_id = id;
    w->block[0] = id % launch->grid[0];
    w->block[1] = id / launch->grid[0] % launch->grid[1];
    w->block[2] = id / launch->grid[0] / launch->grid[1];
    w->live = w->exists;
    w->waited = launch->programmatic ? 0 : UINT32_MAX;
    copies_forget(w);
    bulk_forget(w);
    w->back = UINT32_MAX;
    w->waits_at = NULL;
    w->skipped = 0;
    w->idle = w->slept_ns = w->clock_wait = w->empty = w->steps = w->cycles = w->loads = w->matches = w->constants = w->rounds = w->fresh_rounds = w->mbarrier_rounds = w->copy_cycles = w->pending_rounds = w->turn = 0;
    w->region = UINT32_MAX;
    memset(w->regs, 0, program.regs_bytes);
    memset(w->pending, 0, program.blocks * sizeof *w->pending);
    memset(w->visits, 0, program.blocks * sizeof *w->visits);
    memset(w->queue, 0, QUEUE_WORDS * sizeof *w->queue);
    send(w, 0, w->live);
  }
}

static int is_longer(const struct longest *one, const struct longest *other) {
  if (one->instructions != other->instructions) return one->instructions > other->instructions;
  return one->block < other->block;
}

static void keep_visits(struct worker *k, const struct warp *w) {
  const struct longest mine = {w->steps, w->block_id};
  for (uint32_t b = 0; b < program.blocks; b++) k->visits[b] += w->visits[b];
  if (!is_longer(&mine, &k->longest_warp)) return;
  k->longest_warp = mine;
  for (uint32_t b = 0; b < program.blocks; b++) k->longest[b] = w->visits[b];
}

/* Rounds of loads in which the warp waited for a sector new to its block. */
uint64_t fresh_rounds(const struct warp *w) { return w->fresh_rounds + __builtin_popcountll(w->pending_rounds); }

static void keep_longest(struct worker *k) {
  struct counters *c = &k->counters;
  for (uint32_t i = 0; i < k->warp_count; i++) {
    const struct warp *w = &k->warps[i];
    if (k->launch->visits) keep_visits(k, w);
    c->longest_instructions = w->steps > c->longest_instructions ? w->steps : c->longest_instructions;
    c->longest_cycles = w->cycles > c->longest_cycles ? w->cycles : c->longest_cycles;
    c->longest_loads = w->loads > c->longest_loads ? w->loads : c->longest_loads;
    c->longest_matches = w->matches > c->longest_matches ? w->matches : c->longest_matches;
    c->longest_constants = w->constants > c->longest_constants ? w->constants : c->longest_constants;
    c->longest_sleep_ns = w->slept_ns > c->longest_sleep_ns ? w->slept_ns : c->longest_sleep_ns;
    c->longest_rounds = w->rounds > c->longest_rounds ? w->rounds : c->longest_rounds;
    c->mbarrier_rounds = w->mbarrier_rounds > c->mbarrier_rounds ? w->mbarrier_rounds : c->mbarrier_rounds;
    c->copy_cycles = w->copy_cycles > c->copy_cycles ? w->copy_cycles : c->copy_cycles;
    const uint64_t fresh = fresh_rounds(w);
    c->fresh_rounds = fresh > c->fresh_rounds ? fresh : c->fresh_rounds;
  }
}

/* Each warp until it has ended or waits. Where loops look at what others store, warps take turns: one may spin until
 * another of its block has stored it. */
static void run_warps(struct worker *k) {
  const int turns = program.looks && k->warp_count > 1;
  for (int again = 1; again;) {
    again = 0;
    for (uint32_t i = 0; i < k->warp_count; i++) {
      struct warp *w = &k->warps[i];
      w->turn_ends = turns ? spent(w) + TURN : UINT64_MAX;
      program.run(w);
      again |= spent(w) >= w->turn_ends;
    }
  }
}

/* Until the block has ended, or only waits for others: whether it does. */
int run_on(struct worker *k) {
  for (;;) {
    run_warps(k);
    const int at_barriers = waiting_at_barrier(k) != NULL;
    if (!at_barriers && !polls_waiting(k)) break;
    if (polls_pass(k) || (at_barriers && open_some(k))) continue;
    if (k->pauses) break;
    polls_fail(k);
  }
  if (k->pauses) return 1;
  for (uint32_t i = 0; i < k->warp_count; i++) bulk_check_done(&k->warps[i]);
  keep_longest(k);
  return 0;
}

/* Whether the block ended without a fault. */
static int run_block(struct worker *k, int64_t id) {
  if (setjmp(k->stopped)) return 0;
  begin(k, id);
  for (uint32_t failed_polls = 0; run_on(k);) failed_polls = resume_alone(k, failed_polls);
  return 1;
}

struct team {
  const struct launch *launch;
  atomic_uint_fast64_t next, stop_at; /* positions among the launch's blocks */
  atomic_uint_fast32_t started;
  pthread_mutex_t lock;
  uint64_t claims;
  uint32_t blocks_met;
};

static void *wide(size_t bytes) {
  void *room = NULL;
  if (posix_memalign(&room, 64, bytes + 64)) abort();
  memset(room, 0, bytes + 64);
  return room;
}

static void set_up(struct worker *k, const struct launch *launch, uint32_t number, uint32_t workers) {
  k->number = number;
  k->workers = workers;
  k->stamp_epoch = number;
  const uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
  k->launch = launch;
  k->warp_count = (threads + LANES - 1) / LANES;
  k->local_stride = (launch->local_bytes + 15) / 16 * 16;
  k->shared = wide(launch->shared_limit);
  k->local = wide(k->local_stride * LANES * k->warp_count);
  k->warps = wide(k->warp_count * sizeof *k->warps);
  k->hints = wide(program.sites * sizeof *k->hints);
  k->uninitialized = wide(program.sites * sizeof *k->uninitialized);
  memset(k->uninitialized, 0xFF, program.sites * sizeof *k->uninitialized);
  if (launch->shared_limit) k->filled = wide(launch->shared_limit);
  k->visits = wide(program.blocks * sizeof *k->visits);
  k->longest = wide(program.blocks * sizeof *k->longest);
  k->longest_warp.block = INT64_MAX;
  k->touched = wide(launch->buffer_count * sizeof *k->touched);
  k->atomics = wide(launch->buffer_count * sizeof *k->atomics);
  if (launch->race_granule && launch->shared_limit) {
    const size_t bytes = (launch->shared_limit / launch->race_granule + 1) * sizeof *k->writer;
    k->writer = wide(bytes);
    k->reader = wide(bytes);
    k->granule_bits = __builtin_ctz(launch->race_granule);
  }
  order_set_up(k);
  for (uint32_t i = 0; i < k->warp_count; i++) {
    struct warp *w = &k->warps[i];
    w->index = i;
    w->warps = k->warp_count;
    w->worker = k;
    w->launch = launch;
    w->symbols = launch->symbols;
    w->params = launch->params;
    w->pending = wide(program.blocks * sizeof *w->pending);
    w->visits = wide(program.blocks * sizeof *w->visits);
    w->queue = wide(QUEUE_WORDS * sizeof *w->queue);
    w->regs = wide(program.regs_bytes);
    EACH {
      const uint32_t linear = i * LANES + l;
      w->exists |= (uint32_t)(linear < threads) << l;
      w->tid[0][l] = linear % launch->block[0];
      w->tid[1][l] = linear / launch->block[0] % launch->block[1];
      w->tid[2][l] = linear / (launch->block[0] * launch->block[1]);
    }
  }
}

static void free_warp(struct warp *w) {
  free(w->pending);
  free(w->visits);
  free(w->queue);
  free(w->regs);
}

static void tear_down(struct worker *k) {
  for (uint32_t i = 0; i < k->warp_count; i++) {
    copies_free(&k->warps[i]);
    bulk_free(&k->warps[i]);
  }
  mbarriers_free(k);
  order_tear_down(k);
  free(k->unread);
  free(k->flying);
  for (uint32_t i = 0; i < k->warp_count; i++) free_warp(&k->warps[i]);
  free(k->shared);
  free(k->local);
  free(k->warps);
  free(k->hints);
  free(k->visits);
  free(k->longest);
  free(k->arrivals);
  free(k->writer);
  free(k->reader);
  free(k->adder);
  free(k->filled);
  free(k->uninitialized);
  free(k->paused);
  for (uint64_t b = 0; b < k->launch->buffer_count; b++) {
    free(k->touched[b]);
    free(k->atomics[b]);
  }
  free(k->touched);
  free(k->atomics);
  free(k->local_touched);
}

static void add_up(const struct launch *launch, struct worker *k) {
  if (!launch->visits) {
    launch->counters->lane_instructions += k->counters.lane_instructions;
    return;
  }
  count_regions(k);
  for (uint32_t i = 0; i < program.blocks; i++) launch->visits[i] += k->visits[i];
  if (is_longer(&k->longest_warp, launch->longest_warp)) {
    *launch->longest_warp = k->longest_warp;
    memcpy(launch->longest, k->longest, program.blocks * sizeof *k->longest);
  }
  uint64_t *total = (uint64_t *)launch->counters;
  const uint64_t *mine = (const uint64_t *)&k->counters;
  const size_t sums = offsetof(struct counters, longest_instructions) / sizeof *total;
  for (size_t i = 0; i < sizeof k->counters / sizeof *total; i++)
    total[i] = i < sums ? total[i] + mine[i] : total[i] > mine[i] ? total[i] : mine[i];
}

/* The fault that counts is that of the earliest block: the same on any number of cores. */
static void work(struct team *team, struct worker *k) {
  const struct launch *launch = team->launch;
  for (;;) {
    const uint64_t at = atomic_fetch_add(&team->next, 1);
    if (at >= launch->block_count || at > atomic_load(&team->stop_at)) return;
    if (run_block(k, launch->blocks[at])) continue;
    pthread_mutex_lock(&team->lock);
    if (at < atomic_load(&team->stop_at)) {
      atomic_store(&team->stop_at, at);
      *launch->fault = k->fault;
    }
    pthread_mutex_unlock(&team->lock);
  }
}

static void hand_over(struct team *team, struct worker *k) {
  add_up(team->launch, k);
  hand_over_prints(k);
  hand_over_unset(k);
  team->claims += k->claims;
  team->blocks_met |= k->blocks_met;
  tear_down(k);
}

static void *worker(void *argument) {
  struct team *team = argument;
  struct worker *k = wide(sizeof *k);
  set_up(k, team->launch, atomic_fetch_add(&team->started, 1), team->launch->workers ? team->launch->workers : 1);
  work(team, k);
  pthread_mutex_lock(&team->lock);
  hand_over(team, k);
  pthread_mutex_unlock(&team->lock);
  free(k);
  return NULL;
}

/* Each block has a worker of its own; they take turns. */
static void work_together(struct team *team) {
  const struct launch *launch = team->launch;
  struct worker *blocks = wide(launch->block_count * sizeof *blocks);
  for (uint64_t b = 0; b < launch->block_count; b++) {
    set_up(&blocks[b], launch, b, launch->block_count);
    begin(&blocks[b], launch->blocks[b]);
  }
  const struct fault *fault = run_together(launch, blocks);
  if (fault) *launch->fault = *fault;
  gather_atomics(launch, blocks);
  for (uint64_t b = 0; b < launch->block_count; b++) hand_over(team, &blocks[b]);
  free(blocks);
}

/* Runs the blocks; returns 1 where a fault was noted, 2 where blocks met and one worker has to find which. */
int run_launch(const struct launch *launch) {
  struct team team = {.launch = launch, .lock = PTHREAD_MUTEX_INITIALIZER};
  int pairs = 0;
  const uint64_t taken = launch->again ? block_races_taken(launch, &pairs) : 0;
  atomic_init(&team.next, 0);
  atomic_init(&team.started, 0);
  atomic_init(&team.stop_at, UINT64_MAX);
  if (program.cooperative) {
    work_together(&team);
    return launch->fault->kind != NONE;
  }
  uint32_t others = launch->workers > 1 ? launch->workers - 1 : 0, started = 0;
  pthread_t threads[others + 1];
  while (started < others && !pthread_create(&threads[started], NULL, worker, &team)) started++;
  worker(&team);
  for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
  if (launch->fault->kind != NONE) return 1;
  const int coarse = launch->watched && !launch->precise;
  return coarse && (team.blocks_met || block_races_taken(launch, &pairs) != taken + team.claims || pairs) ? 2 : 0;
}
