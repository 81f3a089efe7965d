"""Kernels over several GPUs, checked and timed: `python -m lab.ranks`.

evaluate KERNEL.cu       guard, build, audit and launch plans, then calls with changing data,
                         shapes and arrivals on all ranks; on GPUs, times beside the baseline
                         and beside NCCL followed by a kernel
faults                   planted faults: wrong protocols, a killed rank; each must be found
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors

if TYPE_CHECKING:
    from astra_chat.tools.task.ranks import RanksTask
    from astra_chat.tools.ranks.judge import Asked, RanksEvaluation

TASK = Path(__file__).parent / "allreduce_add_rmsnorm"
CALLS, VIRTUAL_CALLS = 1000, 24
ROUNDS = 30


def evaluate_one(options: argparse.Namespace) -> int:
    from astra_chat.tools.ranks.judge import evaluate

    task, asked = _asked(options)
    if not options.kernel.is_file():
        raise BadInput(f"{options.kernel} is no file")
    found = evaluate(task, options.kernel.read_text(), asked, _tell)
    if options.json:
        options.json.write_text(found.model_dump_json(indent=1) + "\n")
    print("\n".join(_lines(found)))
    return 0 if found.outcome in ("correct", "timed") else 1


def try_faults(options: argparse.Namespace) -> int:
    from lab.ranks.faults import tried, undetected

    task, asked = _asked(options)
    found = []
    for name, evaluation, detected in tried(task, asked, options.only, _tell):
        found.append((name, evaluation, detected))
        print(f"{'found' if detected else 'NOT FOUND'}: {name}\n    {_outcome(evaluation)}")
    left = undetected(found)
    print(f"{len(found) - len(left)} of {len(found)} planted faults found")
    return 1 if left else 0


def _asked(options: argparse.Namespace) -> tuple[RanksTask, Asked]:
    from astra_chat.tools.entropy import Entropy, Seed
    from astra_chat.tools.task.ranks import load_ranks
    from astra_chat.tools.ranks.judge import Asked, devices

    task = load_ranks(options.task)
    device, ranks = devices(task, options.device, options.ranks)
    virtual = options.device == "virtual"
    calls = options.calls or (VIRTUAL_CALLS if virtual else CALLS)
    rounds = 0 if virtual or options.no_times else ROUNDS
    seed = Seed(Entropy(options.seed).root)
    return task, Asked(ranks, device, seed, calls, rounds)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _outcome(found: RanksEvaluation) -> str:
    return f"{found.outcome}: {found.message}"


def _lines(found: RanksEvaluation) -> list[str]:
    """An evaluation as text."""
    lines = [f"{found.task}, {found.candidate}, {found.ranks} ranks, {found.device}"]
    lines += [_outcome(found), f"seed {found.seed}"]
    lines += [f"launches, case 1: {found.launches[0]}"] * bool(found.launches)
    if found.times:
        lines += ["", "case               us     baseline                    NCCL + norm"]
    for time in found.times:
        sides = [time.baseline, *([time.rival] if time.rival else [])]
        cells = [f"{s.us:7.2f} us {s.ratio:.2f}x [{s.low:.2f}, {s.high:.2f}]" for s in sides]
        lines.append(f"{time.case.label:16} {time.us:6.2f}  {'   '.join(cells)}")
    return lines


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.ranks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    evaluating = commands.add_parser("evaluate", help="judge a kernel")
    evaluating.add_argument("kernel", type=Path)
    evaluating.add_argument("--json", type=Path, help="write the evaluation to this file")
    evaluating.set_defaults(run=evaluate_one)
    faults = commands.add_parser("faults", help="judge planted faults")
    faults.add_argument("--only", default="", help="faults whose names contain this")
    faults.set_defaults(run=try_faults)
    for one in (evaluating, faults):
        one.add_argument("--task", type=Path, default=TASK, help="folder with ranks.toml")
        one.add_argument("--device", choices=("cuda", "virtual"), default="cuda")
        one.add_argument("--ranks", type=int, help="default: as many as the GPUs allow")
        one.add_argument("--calls", type=int, help=f"default {CALLS}, virtual {VIRTUAL_CALLS}")
        one.add_argument("--seed", help="up to 32 hex digits; default: drawn")
        one.add_argument("--no-times", action="store_true", help="only check")
    options = parser.parse_args()
    sys.exit(options.run(options))


if __name__ == "__main__":
    main()
