"""What special registers decide: pauses and waits for the grid pass, all else does not."""

from __future__ import annotations

import pytest

from astra_chat.tools.policy.register_flow import ignored_wait, only_grid_sync, only_sleeps

HEAD = """.version 8.0
.target sm_90
.visible .entry sum(.param .u64 out)
{
.reg .pred %p<9>;
"""
WAIT = """
mov.u64 %rd1, %globaltimer;
mov.u32 %r1, 0;
$POLL:
{
.reg .pred p;
mbarrier.try_wait.shared.b64 p, [%r8], %rd36;
selp.b32 %r2, 1, 0, p;
}
setp.ne.s32 %p1, %r2, 0;
@%p1 bra $DONE;
setp.lt.s32 %p2, %r1, 16;
@%p2 bra $SOON;
mov.u64 %rd2, %globaltimer;
sub.s64 %rd3, %rd2, %rd1;
setp.lt.s64 %p3, %rd3, 4000000;
@%p3 bra $SHORT;
mov.u32 %r3, 1000000;
nanosleep.u32 %r3;
bra.uni $POLL;
$SHORT:
shr.u64 %rd4, %rd3, 2;
cvt.u32.u64 %r4, %rd4;
nanosleep.u32 %r4;
bra.uni $POLL;
$SOON:
add.s32 %r1, %r1, 1;
bra.uni $POLL;
$DONE:
st.global.u32 [%rd9], %r9;
ret;
}
"""
"""How cuda::barrier waits."""


def test_a_wait_that_sleeps_longer_and_longer_is_let_pass() -> None:
    assert only_sleeps(HEAD + WAIT)


def test_a_wait_by_loads_is_let_pass() -> None:
    poll = "mbarrier.try_wait.shared.b64 p, [%r8], %rd36;\nselp.b32 %r2, 1, 0, p;"
    assert poll in WAIT
    assert only_sleeps(HEAD + WAIT.replace(poll, "ld.acquire.gpu.global.u32 %r2, [%rd8];"))


def test_without_a_timer_there_is_nothing_to_let_pass() -> None:
    assert not only_sleeps(HEAD + "ret;\n}\n")


CHANGED = {
    "it stores the time": ("[%rd9], %r9", "[%rd9], %rd2"),
    "it stores what it computed from the time": ("[%rd9], %r9", "[%rd9], %r4"),
    "it stores where the time says": ("[%rd9], %r9", "[%rd4], %r9"),
    "it stores only after a long wait": ("st.global.u32 [", "@%p3 st.global.u32 ["),
    "it remembers that the wait was long": ("mov.u32 %r3, 1000000;", "mov.u32 %r9, 1;"),
    "it remembers it in shared memory": ("mov.u32 %r3, 1000000;", "st.shared.u32 [%r8], %r9;"),
    "it adds to a counter": ("mov.u32 %r3, 1000000;", "red.global.add.u32 [%rd9], 1;"),
    "it gives up": ("nanosleep.u32 %r3;\nbra.uni $POLL;", "bra.uni $DONE;"),
    "it ends where the wait was long": ("mov.u32 %r3, 1000000;", "exit;"),
    "it calls": ("mov.u32 %r3, 1000000;", "call.uni other, ();"),
    "nothing is waited for": ("mbarrier.try_wait.shared.b64 p, [%r8], %rd36;", ""),
    "it waits for the time": (
        "nanosleep.u32 %r4;",
        "$SPIN:\nmov.u64 %rd5, %globaltimer;\nsetp.lt.u64 %p4, %rd5, %rd4;\n@%p4 bra $SPIN;",
    ),
    "the time chooses the line": ("mov.u32 %r3, 1000000;", "brx.idx %r4, table;"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_whatever_else_the_time_decides_is_not(name: str) -> None:
    old, new = CHANGED[name]
    assert old in WAIT
    assert not only_sleeps(HEAD + WAIT.replace(old, new, 1))


def test_lines_and_files_decide_nothing() -> None:
    named = '.file 2 "/usr/include/cuda/std/__thread/threading_support.h"\n'
    wrong = WAIT.replace("[%rd9], %r9", ".loc 2 65 1\n[%rd9], %rd2")
    assert not only_sleeps(named + HEAD + wrong.replace("mov.u64", ".loc 2 65 1\nmov.u64"))
    assert only_sleeps(named + HEAD + WAIT.replace("sub.s64", ".loc 2 7 1\nsub.s64"))


def test_each_function_is_looked_at() -> None:
    other = HEAD.replace("sum", "other") + WAIT.replace("[%rd9], %r9", "[%rd9], %rd2")
    assert not only_sleeps(HEAD + WAIT + other)


GRID = """
mov.u32 %r10, %envreg2;
cvt.u64.u32 %rd43, %r10;
mov.u32 %r11, %envreg1;
cvt.u64.u32 %rd44, %r11;
bfi.b64 %rd3, %rd44, %rd43, 32, 32;
setp.ne.s64 %p4, %rd3, 0;
@%p4 bra $VALID;
trap;
$VALID:
barrier.sync 0;
@%p5 bra $DONE;
add.s64 %rd56, %rd3, 4;
atom.add.release.gpu.u32 %r24,[%rd56],%r25;
$POLL:
ld.acquire.gpu.u32 %r34,[%rd56];
xor.b32 %r35, %r34, %r24;
setp.gt.s32 %p7, %r35, -1;
@%p7 bra $POLL;
$DONE:
barrier.sync 0;
st.global.u32 [%rd9], %r9;
ret;
}
"""
"""How grid.sync() waits."""


def test_a_wait_for_the_grid_is_let_pass() -> None:
    assert only_grid_sync(HEAD + GRID)
    assert not only_grid_sync(HEAD + WAIT)


GRID_CHANGED = {
    "it counts there": ("[%rd9], %r9", "[%rd3], %r9"),
    "it keeps what stood there": ("[%rd9], %r9", "[%rd9], %r34"),
    "it keeps what its atomic found": ("[%rd9], %r9", "[%rd9], %r24"),
    "it keeps the address": ("[%rd9], %r9", "[%rd9], %rd3"),
    "it stores by what stood there": ("st.global", "@%p7 st.global"),
    "it goes elsewhere by what stood there": ("barrier.sync 0;\nst", "@%p7 bra $VALID;\nst"),
    "it ends by what stood there": ("barrier.sync 0;\nst", "@%p7 exit;\nst"),
    "it loads plainly": ("ld.acquire.gpu.u32", "ld.global.u32"),
    "it exchanges": ("atom.add.release", "atom.exch.release"),
    "it adds the address": ("[%rd56],%r25", "[%rd9],%rd3"),
    "it adds what stood there": ("[%rd56],%r25", "[%rd56],%r34"),
    "it works while it waits": ("xor.b32", "st.global.u32 [%rd8], %r8;\nxor.b32"),
}


@pytest.mark.parametrize("name", GRID_CHANGED)
def test_whatever_else_is_done_with_the_grids_barrier_is_not(name: str) -> None:
    old, new = GRID_CHANGED[name]
    assert old in GRID
    assert not only_grid_sync(HEAD + GRID.replace(old, new, 1))


TRIES = {
    "in a loop": ("$AGAIN:\n{try}\n@!%p1 bra $AGAIN;\n{load}", False),
    "once": ("{try}\n{load}", True),
    "once in each round": ("$AGAIN:\n{try}\n{load}\n@%p2 bra $AGAIN;", True),
    "as a number that nobody reads": ("{try}\nselp.u32 %r2, 1, 0, %p1;\n{load}", True),
    "as a number that a branch reads": (
        "$AGAIN:\n{try}\nselp.u32 %r2, 1, 0, %p1;\nsetp.eq.u32 %p3, %r2, 0;\n@%p3 bra $AGAIN;\n"
        "{load}",
        False,
    ),
    "before a loop of its own": (
        "{try}\n@%p1 bra $DONE;\n$AGAIN:\n{try}\n@!%p1 bra $AGAIN;\n$DONE:\n{load}",
        False,
    ),
    "once, beside one in a loop": ("{try}\n{load}\n$AGAIN:\n{try}\n@!%p1 bra $AGAIN;", True),
}


@pytest.mark.parametrize("name", TRIES)
@pytest.mark.parametrize("how", ["try_wait.parity", "test_wait"])
def test_what_a_wait_at_an_mbarrier_returns_decides_something(name: str, how: str) -> None:
    body, ignored = TRIES[name]
    wait = f"mbarrier.{how}.shared::cta.b64 %p1, [%r8], %r9;"
    text = body.replace("{try}", wait).replace("{load}", "ld.shared.f32 %f1, [%r7];")
    assert (ignored_wait(f"{HEAD}{text}\nret;\n}}\n") is not None) == ignored
