"""Signals between ranks in a candidate's PTX: their scope and order, and how often a rank waits.

Ranks are different GPUs. What one stores, another sees in order only through a release and an
acquire at the scope of the system (PTX ISA, memory consistency model). No test shows a weaker one
reliably, so these rules read the instructions:

1. Atomics, releases, acquires and relaxed accesses of global memory have the scope .sys.
2. A flag of at most 32 bits that is stored relaxed or volatile has a fence of that scope before it.
3. A flag that is read so has one behind it, before what the flag announces is read.

4. A file that waits also sends, and one that sends also waits, by such instructions: a plain store
   or load is no signal.

A word that carries data beside its call's number in one access of 64 bits or more needs no order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from astra_chat.tools.policy.ptx_audit import kernel_bodies

_OPCODE = re.compile(r"^(?P<opcode>(?P<what>ld|st|red|atom|fence|membar)\.[\w.:]+)")
_WIDE = re.compile(r"\.(?:v2|v4|[busf]64|b128)\b")
_SCOPE = re.compile(r"\.(cta|cluster|gpu|sys)\b")
_ORDERED = re.compile(r"\.(relaxed|acquire|release|acq_rel|sc|volatile|mmio)\b")
_FENCES = re.compile(r"^(?:fence\.(?:acq_rel|sc)\.sys|membar\.sys)\b")


class Access(NamedTuple):
    """One instruction that takes part in signalling."""

    opcode: str
    stores: bool
    loads: bool
    scope: str
    order: str
    """relaxed, acquire, release, acq_rel, sc, volatile; "" of atomics that name none."""

    @property
    def is_fence(self) -> bool:
        """Whether it orders all that is around it, for other GPUs too."""
        return bool(_FENCES.match(self.opcode))

    @property
    def is_bare_flag(self) -> bool:
        """Whether it neither orders anything nor carries data beside a number."""
        return self.order in ("relaxed", "volatile", "mmio", "") and not _WIDE.search(self.opcode)


def accesses(statements: Iterable[str]) -> Iterator[Access]:
    """Signalling accesses of global memory, and fences, in the order of the text."""
    for text in statements:
        match = _OPCODE.match(text)
        if match is None or ".shared" in match["opcode"] or ".local" in match["opcode"]:
            continue
        opcode, what = match["opcode"], match["what"]
        order, scope = _ORDERED.search(opcode), _SCOPE.search(opcode)
        atomic = what in ("red", "atom")
        if what in ("fence", "membar") or atomic or order:
            volatile = order is not None and order[1] in ("volatile", "mmio")
            yield Access(
                opcode,
                what in ("st", "red", "atom"),
                what in ("ld", "atom"),
                scope[1] if scope else "sys" if volatile else "gpu",
                order[1] if order else "",
            )


def signal_faults(ptx: str) -> list[str]:
    """What breaks the rules, kernel by kernel, each instruction once."""
    found: dict[str, None] = {}
    every = [[*accesses(statements)] for statements in kernel_bodies(ptx).values()]
    for seen in every:
        found.update(dict.fromkeys(_faults(seen)))
    return [*found, *_one_sided([one for seen in every for one in seen])]


def _one_sided(seen: Sequence[Access]) -> Iterator[str]:
    sends, waits = any(one.stores for one in seen), any(one.loads for one in seen)
    if sends and not waits:
        yield (
            "no kernel waits for a peer: a loop of plain loads does not count as a wait;"
            " use ld.acquire.sys"
        )
    if waits and not sends:
        yield (
            "no kernel signals a peer: a plain store does not count as a signal; use st.release.sys"
        )
    if not (sends or waits):
        yield "the ranks exchange no signals: use st.release.sys and ld.acquire.sys"


def _faults(seen: Sequence[Access]) -> Iterator[str]:
    for at, one in enumerate(seen):
        if not (one.stores or one.loads):
            continue
        if one.scope != "sys":
            yield (
                f"{one.opcode} has a scope within this GPU ({one.scope}): a peer's GPU may"
                " see neither the access nor the order that it imposes; use .sys (for atomics, the"
                " _system form)"
            )
        elif one.is_bare_flag:
            if one.stores and not any(before.is_fence for before in seen[:at]):
                yield (
                    f"{one.opcode} signals a peer, but nothing orders the stores before it: store"
                    " with st.release.sys, or call __threadfence_system() first"
                )
            if one.loads and not any(_orders_reads(after) for after in seen[at + 1 :]):
                yield (
                    f"{one.opcode} waits for a peer, but nothing orders the reads after it: load"
                    " with ld.acquire.sys, or call __threadfence_system() after the wait"
                )


def _orders_reads(one: Access) -> bool:
    return one.is_fence or (one.order in ("acquire", "acq_rel") and one.scope == "sys")


def rounds(ptx: str, kernels: Iterable[str]) -> int:
    """How often a call that launches these kernels sends to peers and then waits for them: a wait
    counts once for all that was sent before it."""
    bodies, count = kernel_bodies(ptx), 0
    for kernel in kernels:
        sent = False
        for one in accesses(bodies.get(kernel, [])):
            if one.loads and sent:
                count, sent = count + 1, False
            sent = sent or (one.stores and not one.loads)
    return count
