/* mbarrier's instructions, and the lanes that wait for the end of a phase. */
#include <stdlib.h>
#include <string.h>
#include "mbarriers.h"

#define MOST ((1 << 20) - 1)
#define PATIENCE 32 /* failed tests of all waiting lanes before lanes continue without the others of their warp */
#define FAILED_NS 1000 /* what a failed test takes, by the clock of the kernel and out of its budget */
enum misuse { NO_MBARRIER, BAD_COUNT, TOO_MANY, COMPLETES, TOO_MANY_BYTES, STALE };

static void *grown(void *items, size_t count, size_t *room, size_t size) {
  if (count < *room) return items;
  *room = *room ? 2 * *room : 8;
  if (!(items = realloc(items, *room * size))) abort();
  return items;
}

struct mbarriers *mbarriers_of(struct worker *k) {
  if (!k->mbarriers && !(k->mbarriers = calloc(1, sizeof *k->mbarriers))) abort();
  return k->mbarriers;
}

static void forget_events(struct record *r) {
  for (size_t i = 0; i < r->count; i++) free(r->events[i].data);
  r->count = 0;
}

static void drop(struct record *r) {
  forget_events(r);
  free(r->events);
  free(r);
}

void mbarriers_forget(struct worker *k) {
  struct mbarriers *all = k->mbarriers;
  if (!all) return;
  for (size_t i = 0; i < all->count; i++) drop(all->records[i]);
  all->count = all->waits = all->failed_polls = 0;
  all->last_failed.warp = NULL;
}

void mbarriers_free(struct worker *k) {
  if (!k->mbarriers) return;
  mbarriers_forget(k);
  free(k->mbarriers->records);
  free(k->mbarriers->waiting);
  free(k->mbarriers);
}

static void misused(struct warp *w, uint32_t instruction, uint32_t lane, enum misuse what) {
  w->worker->fault.detail[0] = what;
  fault_at(w, MBARRIER, instruction, lane);
}

/* From bit 0: arrivals awaited (20), of each phase (20), bytes awaited (21, signed), parity, the mark 01. */
int is_mbarrier(const struct worker *k, uint64_t address, struct state *state) {
  const uint64_t word = *(const uint64_t *)(k->shared + address);
  if (word >> 62 != 1) return 0;
  *state = (struct state){word & MOST, word >> 20 & MOST, (int64_t)(word << 3) >> 43, word >> 61 & 1};
  return 1;
}
static uint64_t packed(const struct state *s) {
  return (uint64_t)s->pending | (uint64_t)s->expected << 20 | ((uint64_t)s->bytes & ((1 << 21) - 1)) << 40 |
         (uint64_t)s->phase << 61 | (uint64_t)1 << 62;
}
static void put(struct worker *k, uint64_t address, const struct state *state) {
  *(uint64_t *)(k->shared + address) = packed(state);
}
static int is_over(const struct state *s) { return s->pending == 0 && s->bytes == 0; }

/* Ends the phase if nothing is awaited any more. */
static void turn(struct record *r, struct state *s) {
  if (!is_over(s)) return;
  memcpy(r->over[s->phase], r->before, sizeof r->before);
  r->ended[s->phase] = r->arrived;
  s->pending = s->expected;
  s->phase ^= 1;
  r->phases++;
}

static struct record *known(const struct worker *k, uint64_t address) {
  const struct mbarriers *all = k->mbarriers;
  for (size_t i = 0; all && i < all->count; i++)
    if (all->records[i]->address == address) return all->records[i];
  return NULL;
}

/* Faults where the warp cannot know that the mbarrier is initialized. */
static void check_known(struct warp *w, uint32_t instruction, uint32_t lane, const struct record *r) {
  if (!is_seen(w, 1u << lane, r->by, r->time)) fault_at(w, UNORDERED_MBARRIER, instruction, lane);
}

/* Faults where no mbarrier is, or none that this warp can know of. */
struct record *record_at(struct warp *w, uint32_t instruction, uint32_t lane, uint64_t address, struct state *state) {
  struct record *r = known(w->worker, address);
  if (!r || !is_mbarrier(w->worker, address, state)) misused(w, instruction, lane, NO_MBARRIER);
  check_known(w, instruction, lane, r);
  return r;
}

struct event *add_event(struct record *r) {
  r->events = grown(r->events, r->count, &r->room, sizeof *r->events);
  return memset(&r->events[r->count++], 0, sizeof *r->events);
}

static struct rounds rounds_of(const struct warp *w) { return (struct rounds){w->rounds, fresh_rounds(w), 0}; }

static void most(struct rounds *known, struct rounds other) {
  if (other.all > known->all || (other.all == known->all && other.copy_cycles > known->copy_cycles)) {
    known->all = other.all;
    known->copy_cycles = other.copy_cycles;
  }
  if (other.fresh > known->fresh) known->fresh = other.fresh;
}

static void land(struct worker *k, struct record *r, struct event *event) {
  most(&r->arrived, event->rounds);
  if (event->data) {
    land_copy(k, event);
    const int64_t time = copied(k, event->start, event->size);
    if (time > r->before[COPIES]) r->before[COPIES] = time;
    free(event->data);
    return;
  }
  copies_deliver(event->warp, event->lanes, event->serial);
  release_to(event->warp, event->lanes, r->before);
}

/* Lets arrive what is in flight, if that ends the phase; no more than needed. */
static void settle(struct worker *k, struct record *r) {
  struct state s;
  if (!is_mbarrier(k, r->address, &s)) return;
  for (size_t i = 0; i < r->count; i++) {
    s.pending -= r->events[i].arrivals;
    s.bytes -= r->events[i].bytes;
    if (!is_over(&s)) continue;
    for (size_t j = 0; j <= i; j++) land(k, r, &r->events[j]);
    r->count -= i + 1;
    memmove(r->events, r->events + i + 1, r->count * sizeof *r->events);
    turn(r, &s);
    put(k, r->address, &s);
    return;
  }
}

static void initialise(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, uint32_t count) {
  struct worker *k = w->worker;
  if (count < 1 || count > MOST) misused(w, site->instruction, lane, BAD_COUNT);
  struct record *r = known(k, address);
  if (!r) {
    struct mbarriers *all = mbarriers_of(k);
    all->records = grown(all->records, all->count, &all->room, sizeof *all->records);
    if (!(r = all->records[all->count++] = calloc(1, sizeof *r))) abort();
  }
  forget_events(r);
  r->address = address;
  r->by = w->index;
  r->time = k->order ? k->order->own[w->index] : 0;
  clocks unused = {0};
  release_to(w, 1u << lane, unused);
  memset(r->before, 0, sizeof r->before);
  memset(r->over, 0, sizeof r->over);
  memset(&r->arrived, 0, sizeof r->arrived);
  memset(r->ended, 0, sizeof r->ended);
  put(k, address, &(struct state){count, count, 0, 0});
}

static void invalidate(struct warp *w, const struct site *site, uint32_t lane, uint64_t address) {
  struct state s;
  struct mbarriers *all = w->worker->mbarriers;
  struct record *r = record_at(w, site->instruction, lane, address, &s);
  settle(w->worker, r);
  memset(w->worker->shared + address, 0xFF, 8);
  for (size_t i = 0; i < all->count; i++)
    if (all->records[i] == r) all->records[i] = all->records[--all->count];
  drop(r);
}

static void expect(struct warp *w, const struct site *site, uint32_t lane, struct state *s, int64_t bytes) {
  s->bytes += bytes;
  if (s->bytes < -MOST || s->bytes > MOST) misused(w, site->instruction, lane, TOO_MANY_BYTES);
}

void mbarrier(struct warp *w, const struct site *site, enum mbarrier_action action, const uint64_t *address,
              uint32_t m, const uint32_t *counts) {
  if (!m) return;
  shared_places(w, site, address, m);
  count_shared(w, site, address, m);
  LANES_OF(m, l) {
    struct state s;
    if (action == MBARRIER_INIT) initialise(w, site, l, address[l], counts[l]);
    else if (action == MBARRIER_INVAL) invalidate(w, site, l, address[l]);
    else {
      struct record *r = record_at(w, site->instruction, l, address[l], &s);
      expect(w, site, l, &s, action == MBARRIER_EXPECT ? (int64_t)counts[l] : -(int64_t)counts[l]);
      turn(r, &s);
      put(w->worker, address[l], &s);
    }
  }
}

/* counts: of arrivals, null for one each; or of bytes where it expects some. tokens: the states before. */
void mbarrier_arrive(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m,
                     const uint32_t *counts, uint32_t how, uint64_t *tokens) {
  if (!m) return;
  shared_places(w, site, address, m);
  count_shared(w, site, address, m);
  LANES_OF(m, l) {
    struct state s;
    struct record *r = record_at(w, site->instruction, l, address[l], &s);
    if (s.pending == 0) {
      settle(w->worker, r);
      record_at(w, site->instruction, l, address[l], &s);
    }
    tokens[l] = packed(&(struct state){s.pending, s.expected, 0, s.phase}) | (r->phases & MOST) << 40;
    const int64_t number = counts ? counts[l] : 1, count = how & ARRIVE_EXPECTS ? 1 : number;
    if (how & ARRIVE_EXPECTS) expect(w, site, l, &s, number);
    if (count < 1 || count > MOST) misused(w, site->instruction, l, BAD_COUNT);
    if (count > s.pending) misused(w, site->instruction, l, TOO_MANY);
    if (how & ARRIVE_NO_COMPLETE && count == s.pending) misused(w, site->instruction, l, COMPLETES);
    if (!(how & ARRIVE_RELAXED)) release_to(w, 1u << l, r->before);
    most(&r->arrived, rounds_of(w));
    s.pending -= count;
    if (how & ARRIVE_DROP) s.expected -= count;
    turn(r, &s);
    put(w->worker, address[l], &s);
  }
}

/* The lanes' copies by cp.async bring an arrival when they have arrived. */
void mbarrier_arrive_copies(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, int extra) {
  if (!m) return;
  shared_places(w, site, address, m);
  for (uint32_t rest = m; rest;) {
    const uint32_t first = LOWEST(rest);
    uint32_t mine = 0;
    LANES_OF(rest, l) mine |= (uint32_t)(address[l] == address[first]) << l;
    rest &= ~mine;
    struct state s;
    struct record *r = record_at(w, site->instruction, first, address[first], &s);
    if (extra) {
      s.pending += __builtin_popcount(mine);
      put(w->worker, address[first], &s);
    }
    struct event *event = add_event(r);
    event->arrivals = __builtin_popcount(mine);
    event->warp = w;
    event->lanes = mine;
    event->serial = copies_serial(w);
    event->rounds = (struct rounds){w->rounds + 1, fresh_rounds(w) + 1, 0};
  }
}

/* Lanes wait until no other thread of the block can continue. */
void mbarrier_wait(struct warp *w, const struct poll *poll, const struct site *site, const uint64_t *address,
                   uint32_t m, const uint64_t *phase, uint32_t *result) {
  struct mbarriers *all = mbarriers_of(w->worker);
  shared_places(w, site, address, m);
  w->worker->counters.barriers++;
  all->waiting = grown(all->waiting, all->waits, &all->places, sizeof *all->waiting);
  struct waiting *it = &all->waiting[all->waits++];
  *it = (struct waiting){.warp = w, .poll = poll, .lanes = m, .result = result};
  if (all->failed_polls < PATIENCE && poll->target < w->back) w->back = poll->target;
  LANES_OF(m, l) {
    it->address[l] = address[l];
    it->parities |= (uint32_t)(phase[l] >> (poll->parity ? 0 : 61) & 1) << l;
    it->numbers[l] = phase[l] >> 40 & MOST;
  }
}

static void answer(struct waiting *it, uint32_t lanes, uint32_t value) {
  LANES_OF(lanes, l) it->result[l] = value;
  send(it->warp, it->poll->target, lanes);
  it->lanes &= ~lanes;
}

/* Who waited for a copy has waited for a load, after those before which the copy began; who waited for a warp, for that
   warp's loads. */
static void wait_for_loads(struct warp *w, const struct rounds *loads) {
  if (loads->all > w->rounds) {
    w->mbarrier_rounds += loads->all - w->rounds;
    w->copy_cycles += loads->copy_cycles;
    w->rounds = loads->all;
  }
  if (loads->fresh > fresh_rounds(w)) w->fresh_rounds += loads->fresh - fresh_rounds(w);
}

/* What came before the arrivals comes before what these lanes do next, and has taken its rounds of loads. */
static void acquire(struct waiting *it, uint32_t lanes) {
  LANES_OF(lanes, l) {
    const struct record *r = known(it->warp->worker, it->address[l]);
    const uint32_t parity = it->parities >> l & 1;
    if (!it->poll->relaxed) acquire_from(it->warp, 1u << l, r->over[parity]);
    wait_for_loads(it->warp, &r->ended[parity]);
  }
}

static void hold(struct worker *k) {
  const struct mbarriers *all = k->mbarriers;
  for (uint32_t i = 0; i < k->warp_count; i++) k->warps[i].back = UINT32_MAX;
  for (size_t i = 0; i < all->waits && all->failed_polls < PATIENCE; i++) {
    struct warp *w = all->waiting[i].warp;
    w->back = all->waiting[i].poll->target < w->back ? all->waiting[i].poll->target : w->back;
  }
}

static int pass(struct worker *k) {
  struct mbarriers *all = k->mbarriers;
  size_t kept = 0;
  int passed = 0;
  for (size_t i = 0; i < all->waits; i++) {
    struct waiting *it = &all->waiting[i];
    uint32_t over = 0;
    LANES_OF(it->lanes, l) {
      struct state s;
      const struct record *r = known(k, it->address[l]);
      if (!r || !is_mbarrier(k, it->address[l], &s)) misused(it->warp, it->poll->instruction, l, NO_MBARRIER);
      if (!it->poll->parity && ((r->phases - it->numbers[l]) & MOST) > 1)
        misused(it->warp, it->poll->instruction, l, STALE);
      if (s.phase == (it->parities >> l & 1)) continue;
      check_known(it->warp, it->poll->instruction, l, r);
      over |= (uint32_t)1 << l;
    }
    acquire(it, over);
    if (counts_as_met(it->warp, over)) meet(it->warp, over);
    if (over) block_order_all_meet(k); /* whoever arrived counts as all of the block: a missed race is better */
    answer(it, over, 1);
    passed |= over != 0;
    if (it->lanes) all->waiting[kept++] = *it;
  }
  all->waits = kept;
  if (passed) {
    all->last_failed.warp = NULL;
    all->failed_polls = 0;
  }
  hold(k);
  return passed;
}

int polls_waiting(const struct worker *k) { return k->mbarriers && k->mbarriers->waits; }

/* Lets lanes continue whose phase is over; if there are none, whose phase ends with what is in flight. */
int polls_pass(struct worker *k) {
  if (!polls_waiting(k)) return 0;
  if (pass(k)) return 1;
  struct mbarriers *all = k->mbarriers;
  for (size_t i = 0; i < all->waits; i++)
    LANES_OF(all->waiting[i].lanes, l) {
      struct record *r = known(k, all->waiting[i].address[l]);
      if (r && r->count) settle(k, r);
    }
  return pass(k);
}

/* Tells all waiting lanes that their phase is not over: nothing else can continue. */
void polls_fail(struct worker *k) {
  struct mbarriers *all = k->mbarriers;
  all->last_failed = all->waiting[0];
  for (uint32_t i = 0; i < k->warp_count; i++) k->warps[i].idle += FAILED_NS;
  for (size_t i = 0; i < all->waits; i++) answer(&all->waiting[i], all->waiting[i].lanes, 0);
  all->waits = 0;
  all->failed_polls++;
  hold(k);
}

/* Faults if lanes wait without progress at an mbarrier. */
void check_in_vain(struct worker *k) {
  const struct waiting *it = k->mbarriers ? &k->mbarriers->last_failed : NULL;
  if (!it || !it->warp) return;
  const uint32_t lane = LOWEST(it->lanes);
  k->fault.address = it->address[lane];
  k->fault.detail[0] = *(const uint64_t *)(k->shared + it->address[lane]);
  fault_at(it->warp, HANG, it->poll->instruction, lane);
}
