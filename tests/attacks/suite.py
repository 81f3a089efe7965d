"""Runs attacks and honest kernels through the judge's gates, each gate by itself.

`python tests/attacks/suite.py` writes docs/research/attacks.md from attacks.toml,
limits.md and what was recorded; `--record virtual` (or cuda) runs everything first, or what
`--only` names, of which several GPUs may each do a part at once. `--record sanitizers` runs the
honest kernels through what a winner has to pass before it is confirmed: its launcher beside its
plans, Compute Sanitizer, the virtual GPU's sanitizer.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import lzma
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.whole_file import write_whole
from astra_chat.tools.types import (
    Device,
)
from lab.honest_kernels import honest_kernels
from tests.attacks.bench import (
    CLEAN,
    HERE,
    Attack,
    Bench,
    attacks,
    caught,
    honest,
    honest_words,
    outcome_words,
    task_of,
)

DOCUMENT = HERE.parents[1] / "docs" / "research" / "attacks.md"
LIMITS, RECORD = (HERE / name for name in ("limits.md", "recorded.json.xz"))


def record(kind: str, workers: int, only: str = "") -> None:
    """Run attacks and honest kernels, those whose id or file matches `only`; keep what was seen.

    Several at once; those that are timed last and fewer at once, as the GPU lock lets one of them
    measure at a time, and those that end by a time limit one by one, as they change the limits.
    """
    device = pick_device(kind)
    if not only:
        _keep(device, said={"device": device.name, "attacks": {}, "honest": {}})
    wanted = [a for a in attacks() if re.fullmatch(only or ".*", a.id)]
    right = [pair for pair in honest() if re.fullmatch(only or ".*", pair[1])]
    names = sorted({a.task for a in wanted if a.task} | {t for t, _ in right})
    with ExitStack() as stack, ThreadPoolExecutor(workers) as pool:
        benches = {name: stack.enter_context(Bench(task_of(name), device)) for name in names}

        def prepare(name: str) -> None:
            sources = [a.source for a in wanted if a.task == name and not a.endless]
            sources += [honest_kernels()[file] for task, file in right if task == name]
            benches[name].prepare(sources)

        list(pool.map(prepare, names))
        todo = [(a, g) for a in wanted for g in a.gates_on(kind) if a.runs_on(kind)]
        endless = [(a, g) for a, g in todo if a.endless]
        late = [(a, g) for a, g in todo if not a.endless and g in ("time", "confirm")]
        list(pool.map(lambda pair: _note_honest(benches[pair[0]], pair[1]), right))
        list(pool.map(lambda pair: _note(benches, *pair), set(todo) - {*late, *endless}))
        with ThreadPoolExecutor(max(1, workers // 4)) as few:
            list(few.map(lambda pair: _note(benches, *pair), late))
        for attack, gate in endless:
            _note(benches, attack, gate)


def record_sanitizers(workers: int, only: str = "") -> None:
    """What honest kernels would have to pass as winners, those whose file matches `only`."""
    device = pick_device("cuda")
    right = [pair for pair in honest() if re.fullmatch(only or ".*", pair[1])]
    with ExitStack() as stack, ThreadPoolExecutor(workers) as pool:
        benches = {t: stack.enter_context(Bench(task_of(t), device)) for t, _ in right}
        for task, bench in benches.items():
            bench.prepare([honest_kernels()[f] for t, f in right if t == task])

        def note(pair: tuple[str, str]) -> None:
            said = outcome_words(benches[pair[0]].confirmable(honest_kernels()[pair[1]]))
            _keep(device, "sanitized", pair[1], said=said[:400])
            _say(f"{pair[1]} {said}")

        list(pool.map(note, right))


def _note(benches: dict[str, Bench], attack: Attack, gate: str) -> None:
    bench = benches[attack.task]
    found = caught(bench, attack, gate)
    _keep(bench.device, "attacks", attack.id, gate, said=found.model_dump())
    _say(f"{attack.id} {gate} {'caught' if found.caught else f'MISSED: {found.words}'}")


def _note_honest(bench: Bench, file: str) -> None:
    said = honest_words(bench, honest_kernels()[file])
    _keep(bench.device, "honest", file, said=said)
    _say(f"{file} {said}")


def _say(line: str) -> None:
    """In one piece, beside other threads."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _keep(device: Device, *place: str, said: object) -> None:
    """At once, beside what others write: a run that is stopped leaves what it has seen."""
    folder = os.open(HERE, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        known = json.loads(lzma.decompress(RECORD.read_bytes())) if RECORD.is_file() else {}
        recorded_as = device.spec if device.kind == "cuda" else "virtual"
        known.setdefault(recorded_as, {"device": device.name, "attacks": {}, "honest": {}})
        at, last = known, recorded_as
        for name in place:
            at, last = at.setdefault(last, {}), name
        at[last] = said
        text = json.dumps(known, indent=1, sort_keys=True) + "\n"
        write_whole(RECORD, lzma.compress(text.encode()))
    finally:
        os.close(folder)


def document() -> str:
    """docs/research/attacks.md."""
    known = json.loads(lzma.decompress(RECORD.read_bytes()))
    on = sorted(known, key=lambda name: (name != "virtual", name != "h200", name))
    lines = [
        "# Attacks",
        "",
        "Ways to look fast without being fast, and the step of the judge that catches each. T, S"
        " and H come from published catalogues (timing, semantics, harness); X are our own."
        " `python tests/attacks/suite.py` writes this page from `tests/attacks/attacks.toml` and"
        " from what `--record` recorded; a test runs the same table. Where several steps are"
        " named, each was also tried without the earlier ones.",
        "",
        *(_summary(name, known[name]) for name in on),
        "",
        "| id | attack | gates | caught on | evidence |",
        "|---|---|---|---|---|",
        *(_row(attack, on, known) for attack in attacks()),
        "",
        "The attacks that earlier versions of the judge missed, and the fix for each, are in"
        " [tests/attacks/found.md](../../tests/attacks/found.md).",
        "",
        LIMITS.read_text(),
    ]
    return "\n".join(lines)


def _summary(name: str, seen: dict[str, Any]) -> str:
    gates = [s for found in seen["attacks"].values() for s in found.values()]
    whole = [all(s["caught"] for s in found.values()) for found in seen["attacks"].values()]
    states = list(seen["honest"].values())
    lacking = sum(state.startswith("unsupported") for state in states)
    good = sum(state.startswith("correct") for state in states)
    watched = list(seen.get("sanitized", {}).values())
    clean = f"; sanitizers find nothing in {watched.count(CLEAN.kind)} of {len(watched)}"
    return (
        f"- `{name}` ({seen['device']}): {sum(whole)} of {len(whole)} attacks caught"
        f" ({sum(s['caught'] for s in gates)} of {len(gates)} gates, each on its own);"
        f" {good} of {len(states) - lacking} honest kernels accepted"
        f"{f', {lacking} more need instructions that it does not support' if lacking else ''}"
        f"{clean if watched else ''}."
    )


def _row(attack: Attack, on: list[str], known: dict[str, Any]) -> str:
    if attack.test:
        return f"| {attack.id} | {attack.name} | impossible | - | `{attack.test}` |"
    tried = {name: seen for name in on if (seen := known[name]["attacks"].get(attack.id))}
    words = attack.how
    if tried and not words:
        words = next(iter(next(iter(tried.values())).values()))["words"]
    shown, gates = words.replace("|", "\\|"), dict.fromkeys((*attack.gates, *attack.cuda_gates))
    shown = shown.replace("\n", " ")[:70]
    cells = (attack.id, attack.name, ", ".join(gates), _caught_on(tried, len(on)), shown)
    return f"| {' | '.join(cells)} |"


def _caught_on(tried: dict[str, Any], devices: int) -> str:
    """The devices on which all gates caught an attack; where it was not run stays out."""
    caught = [name for name, seen in tried.items() if all(s["caught"] for s in seen.values())]
    missed = [f"**missed on {name}**" for name in tried if name not in caught]
    return "all" if len(caught) == devices else ", ".join(caught + missed) or "not run"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", choices=("virtual", "cuda", "sanitizers"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="pattern of ids and of honest kernels' files")
    options = parser.parse_args()
    if options.record == "sanitizers":
        record_sanitizers(options.workers, options.only)
    elif options.record:
        record(options.record, options.workers, options.only)
    DOCUMENT.write_text(document())


if __name__ == "__main__":
    main()
