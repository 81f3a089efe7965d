/* Barriers of a thread block. */
#include <stdlib.h>
#include <string.h>
#include "machine.h"

void arrive(struct warp *w, const struct barrier *barrier, uint32_t m, const uint32_t *number, const uint32_t *threads,
            uint32_t votes, uint32_t *result) {
  struct worker *k = w->worker;
  k->counters.barriers++;
  for (uint32_t rest = m; rest;) {
    const uint32_t first = LOWEST(rest);
    uint32_t mine = 0;
    LANES_OF(rest, l) mine |= (uint32_t)(number[l] == number[first]) << l;
    if (k->arrived == k->room) {
      k->room = 2 * k->room + 64;
      k->arrivals = realloc(k->arrivals, k->room * sizeof *k->arrivals);
    }
    k->arrivals[k->arrived++] = (struct arrival){
        .warp = w, .barrier = barrier, .number = number[first], .counted = threads != NULL,
        .threads = threads ? threads[first] : 0, .mask = mine, .votes = votes & mine, .result = result};
    rest &= ~mine;
  }
  if (barrier->waits) w->waits_at = barrier;
  else send(w, barrier->target, m);
}

static int complete(struct worker *k, uint32_t number, const struct arrival *first, uint32_t *arrived) {
  memset(arrived, 0, k->warp_count * sizeof *arrived);
  for (size_t i = 0; i < k->arrived; i++)
    if (k->arrivals[i].number == number) arrived[k->arrivals[i].warp->index] |= k->arrivals[i].mask;
  uint32_t warps = 0, all = 1;
  for (uint32_t i = 0; i < k->warp_count; i++) {
    warps += arrived[i] != 0;
    all &= arrived[i] == k->warps[i].live;
  }
  return first->counted ? warps * LANES >= first->threads : all;
}

/* PTX: all threads of a warp execute the same aligned barrier, if any does. */
static void check_together(struct worker *k, uint32_t number) {
  for (size_t i = 0; i < k->arrived; i++) {
    const struct arrival *a = &k->arrivals[i];
    if (a->number != number || !a->barrier->aligned) continue;
    uint32_t same = 0;
    const struct arrival *other = NULL; /* of the same warp */
    for (size_t j = 0; j < k->arrived; j++) {
      const struct arrival *b = &k->arrivals[j];
      if (b->number != number || b->warp != a->warp) continue;
      if (b->barrier == a->barrier) same |= b->mask;
      else if (!other) other = b;
    }
    if (!((a->warp->live | a->warp->skipped) & ~same)) continue;
    if (other) k->fault.other = other->barrier->instruction;
    fault_at(a->warp, other ? BARRIER_MIXED : BARRIER_TORN, a->barrier->instruction, LOWEST(a->mask));
  }
}

/* Barriers of all threads: whole warps that went round one at which others wait, and wait at a later
 * one, are a barrier ahead from then on (barriers.py of the NumPy engine). */
static void check_round(struct worker *k, uint32_t number) {
  for (size_t i = 0; i < k->arrived; i++) {
    const struct arrival *a = &k->arrivals[i];
    if (a->number != number || a->counted) continue;
    for (size_t j = 0; j < k->arrived; j++) {
      const struct arrival *b = &k->arrivals[j];
      const uint32_t later = b->barrier->block;
      if (b->number != number || b->counted) continue;
      if (!(a->barrier->rejoined[later / 64] >> later % 64 & 1)) continue;
      k->fault.other = b->barrier->instruction;
      fault_at(a->warp, BARRIER_ROUND, a->barrier->instruction, LOWEST(a->mask));
    }
  }
}

static void reduce(struct worker *k, uint32_t number) {
  uint32_t votes = 0, arrived = 0;
  for (size_t i = 0; i < k->arrived; i++) {
    if (k->arrivals[i].number != number) continue;
    votes += __builtin_popcount(k->arrivals[i].votes);
    arrived += __builtin_popcount(k->arrivals[i].mask);
  }
  for (size_t i = 0; i < k->arrived; i++) {
    const struct arrival *a = &k->arrivals[i];
    if (a->number != number || !a->result) continue;
    const uint32_t total = a->barrier->reduction == 'p' ? votes : a->barrier->reduction == 'o' ? votes != 0
                           : votes == arrived;
    LANES_OF(a->mask, l) a->result[l] = total;
  }
}

static void release(struct worker *k, uint32_t number) {
  size_t kept = 0;
  for (size_t i = 0; i < k->arrived; i++) {
    const struct arrival a = k->arrivals[i];
    if (a.number != number) k->arrivals[kept++] = a;
    else if (a.barrier->waits) {
      send(a.warp, a.barrier->target, a.mask);
      a.warp->waits_at = NULL;
      a.warp->skipped &= ~a.mask;
    }
  }
  k->arrived = kept;
}

/* The first lane that waits at a barrier: lanes at bar.arrive continue. */
const struct arrival *waiting_at_barrier(const struct worker *k) {
  for (size_t i = 0; i < k->arrived; i++)
    if (k->arrivals[i].barrier->waits) return &k->arrivals[i];
  return NULL;
}

/* Opens what all have reached. Faults if nothing can open, and no one waits elsewhere. */
int open_some(struct worker *k) {
  uint32_t arrived[LANES];
  int opened = 0;
  for (size_t i = 0; i < k->arrived;) {
    const uint32_t number = k->arrivals[i].number;
    if (!complete(k, number, &k->arrivals[i], arrived)) {
      i++;
      continue;
    }
    check_together(k, number);
    check_round(k, number);
    reduce(k, number);
    next_epoch(k);
    block_order_meet(k, arrived);
    order_advance(k);
    release(k, number);
    opened = 1;
    i = 0;
  }
  if (!opened && !polls_waiting(k) && !k->pauses) {
    const struct arrival *a = waiting_at_barrier(k);
    fault_at(a->warp, BARRIER_STUCK, a->barrier->instruction, LOWEST(a->mask));
  }
  return opened;
}
