"""Plugins of engines: which winners go into one, and what has to be proved before."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from astra_chat.display.notes import note
from astra_chat.export.writing import new_folder
from astra_chat.package.engine_file import Engine, EngineHook
from astra_chat.package.folder import Contents, write_plugin
from astra_chat.package.proof import NotProved, Proof, prove, read_proof
from astra_chat.package.winners import Winner, without
from astra_chat.tools.task.folder import ENGINE_FILE
from astra_vgpu.ground.errors import BadInput

EXAMPLE = (
    "python -m sglang.benchmark.offline_throughput --model-path MODEL --load-format dummy"
    " --dataset-name random --random-input 128 --random-output 32 --num-prompts 64"
)


def write_proof(
    found: Sequence[Winner],
    engine: Engine,
    arch: str | None,
    command: str | None,
    out: Path,
    timeout_s: float,
) -> bool:
    """Start the engine with all these winners, and write what it ran; say it for each operator.
    Returns whether every one was seen. Raises BadInput."""
    words = shlex.split(command or "")
    if not words:
        raise BadInput(
            f"--prove needs the command that starts the engine: --engine-command '{EXAMPLE}'"
        )
    if out.exists():
        raise BadInput(f"{out} already exists and is not overwritten: choose another")
    contents = _everything(found, engine, arch)
    proof = prove(contents, words, out, timeout_s)
    for name, seen in sorted(proof.operators.items()):
        state = "runs" if seen.graphs else "was not seen"
        why = seen.off or ", ".join(f"{n}x {reason}" for reason, n in seen.fell_back.items())
        print(f"{name}: {state} in {seen.graphs} of {proof.graphs} graphs{why and ': ' + why}")
    print(f"wrote {out}: {engine} {proof.version} on {proof.gpu}")
    return all(seen.graphs for seen in proof.operators.values())


def trial_plugin(found: Sequence[Winner], engine: Engine, arch: str | None, out: Path) -> None:
    """Write a plugin of all these winners for `astra-chat step`, which no server runs. Raises
    BadInput."""
    contents = replace(_everything(found, engine, arch), trial=True)
    for winner in contents.winners.values():
        print(f"{winner.task.name}: {winner.words}")
    with new_folder(out) as folder:
        write_plugin(contents, folder)


def _everything(found: Sequence[Winner], engine: Engine, arch: str | None) -> Contents:
    """A plugin of all winners that the engine has a place for, before a proof. Raises BadInput."""
    winners = {one.task.name: one for one in found}
    hooks = {name: own for name, one in winners.items() if (own := hooks_of(one, engine))}
    if not hooks:
        raise BadInput("this engine calls none of these winners' operators")
    return Contents(engine, _arch(found, arch), {name: winners[name] for name in hooks}, hooks)


def proved_plugin(
    found: Sequence[Winner], engine: Engine, paths: Sequence[Path], out: Path
) -> None:
    """Write a plugin of what proofs show. Raises NotProved where they show nothing of it."""
    if not paths:
        raise NotProved(
            f"a plugin for {engine} contains only operators that were seen in its CUDA graphs, and"
            f" no --proof was given. Make one on a machine with {engine} and a GPU: astra-chat"
            " package RUN... --for"
            f" {engine} --prove proof.json --engine-command '...'; or with --trial and then"
            " astra-chat step"
        )
    proofs = [read_proof(path) for path in paths]
    _require_one_kind(proofs, engine)
    gpus = sorted({proof.gpu for proof in proofs})
    winners, hooks, steps, gains = {}, {}, {}, {}
    for one in found:
        name = one.task.name
        shown = {proof.gpu for proof in proofs if proof.shows(name, one.best.candidate)}
        missing = sorted(set(gpus) - shown)
        off = [seen.off for proof in proofs if (seen := proof.operators.get(name)) and seen.off]
        if missing or off:
            why = off[0] if off else f"its kernels were not seen on {', '.join(missing)}"
            note(f"{name}: {one.best.candidate} is left out: {why}")
            continue
        if own := hooks_of(one, engine):
            winners[name], hooks[name] = without(one, gpus), own
            gains[name] = "; ".join(
                f"{text} ({proof.gpu})" for proof in proofs if (text := proof.operators[name].step)
            )
            steps[name] = {
                proof.gpu: rows for proof in proofs if (rows := proof.operators[name].steps)
            }
            print(f"{name}: {one.words}")
            if steps[name]:
                note(f"{name}: the winner handles calls only in steps in which it is faster")
            if not winners[name].measured:
                where = ", ".join(gpus)
                note(f"{name}: not timed on {where}, so the winner handles every call that it can")
    if not winners:
        raise NotProved(f"according to these proofs, no winner of these runs was seen in {engine}")
    contents = Contents(
        engine,
        proofs[0].arch,
        winners,
        hooks,
        gpus,
        min(proof.ranks for proof in proofs),
        sorted({proof.version for proof in proofs}),
        steps,
        {name: text for name, text in gains.items() if text},
    )
    with new_folder(out) as folder:
        write_plugin(contents, folder)


def hooks_of(winner: Winner, engine: Engine) -> tuple[EngineHook, ...]:
    """An engine's hooks for a winner; none, with a note, where there are none. Raises BadInput."""
    file = winner.engine_file()
    if file is None:
        return ()
    own = tuple(hook for hook in file.hooks if hook.engine == engine)
    if not own:
        why = file.none or f"its {ENGINE_FILE} defines no hook for {engine}"
        note(f"{winner.task.name} is left out: {why}")
    return own


def _arch(found: Sequence[Winner], given: str | None) -> str:
    """Raises BadInput where the runs were made for several architectures."""
    archs = sorted({one.summary.device.arch for one in found})
    if given is None and len(archs) > 1:
        raise BadInput(f"the runs are for {', '.join(archs)}: choose one with --arch")
    return given or archs[0]


def _require_one_kind(proofs: Sequence[Proof], engine: Engine) -> None:
    for proof in proofs:
        if proof.engine != engine:
            raise BadInput(f"a proof for {proof.engine} does not apply to {engine}")
        if proof.arch != proofs[0].arch:
            raise BadInput(
                f"the proofs are for {proofs[0].arch} and {proof.arch}: package each one separately"
            )
