"""Kernels over several GPUs: times beside rivals, soaks, planted faults: `python -m lab.ranks`.

rivals KERNEL.cu   times the kernel alternately with the baseline, NCCL, PyTorch's symmetric memory
                   and SGLang's all-reduce, each followed by the kernel of the norm
soak KERNEL.cu     makes 10^5 calls that reuse signals, with changing data, and compares each on
                   the device
faults             judges planted faults in protocols and ranks: each must be found
quantised          prints a kernel of allreduce_add_rmsnorm_quant_fp8
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors

if TYPE_CHECKING:
    from astra_chat.tools.ranks.judge import RanksJudge
    from lab.ranks.measuring import RivalTime

TASK = "allreduce_add_rmsnorm"
TOKENS, HIDDEN = (1, 2, 4, 8, 16, 32, 64), (4096, 5120, 8192)
ROUNDS, SOAK = 20, 100_000


def time_rivals(options: argparse.Namespace) -> int:
    from lab.ranks.measuring import beside_rivals, cases_of

    with _judge(options) as judge:
        cases = cases_of(judge, options.tokens, options.hidden)
        rows, lacking = beside_rivals(judge, _text(options.kernel), cases, options.rounds)
        for line in [*lacking, *_table(rows)]:
            print(line, flush=True)
        if options.json:
            found = [row.model_dump(mode="json") for row in rows]
            options.json.write_text(json.dumps({"lacking": lacking, "rows": found}, indent=1))
    return 0


def soak(options: argparse.Namespace) -> int:
    from lab.ranks.measuring import cases_of, soaked

    with _judge(options) as judge:
        cases = cases_of(judge, (1, 3, 8, 16, 64), (4096, 8192))
        done, wrong = soaked(
            judge, _text(options.kernel), cases, options.calls or SOAK, lambda calls: None
        )
    print(f"{done:,} calls without a fault" + (f", then {wrong}" if wrong else ""))
    return 1 if wrong else 0


def try_faults(options: argparse.Namespace) -> int:
    from lab.ranks.faults import tried

    count, missed = 0, []
    with _judge(options) as judge:
        judge.ranks.calls = options.calls
        for fault in tried(judge, options.only):
            count += 1
            if not fault.found:
                missed.append(fault.name)
            print(f"{'found' if fault.found else 'NOT FOUND'}: {fault.name}\n    {fault.said}")
            sys.stdout.flush()
    print(f"{count - len(missed)} of {count} planted faults found")
    return 1 if missed else 0


def print_quantised(options: argparse.Namespace) -> int:
    from lab.ranks.faults import quantised

    print(quantised(), end="")
    return 0


def _judge(options: argparse.Namespace) -> RanksJudge:
    from astra_chat.tools.entropy import Entropy
    from astra_chat.tools.ranks.judge import RanksJudge
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task.folder import find_task

    device = pick_device(options.device, "h200" if options.device == "virtual" else None)
    return RanksJudge(find_task(options.task), device, trust=True, entropy=Entropy(options.seed))


def _text(kernel: Path) -> str:
    if not kernel.is_file():
        raise BadInput(f"{kernel} is not a file")
    return kernel.read_text()


def _table(rows: list[RivalTime]) -> list[str]:
    """A line for each case: microseconds, and how many times as fast the kernel is."""
    lines = []
    for row in rows:
        cells = [f"{n} {a.us:.2f} us {a.ratio:.2f}x" for n, a in row.beside.items()]
        lines.append(f"{row.case.label:20} {row.us:6.2f} us   {'   '.join(cells)}")
    names = rows[0].beside if rows else {}
    for name in names:
        ratios = [row.beside[name].ratio for row in rows]
        lines.append(f"{name}: {min(ratios):.2f}x to {max(ratios):.2f}x")
    return lines


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.ranks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    timing = commands.add_parser("rivals", help="time a kernel and its rivals, on GPUs")
    timing.add_argument("--tokens", type=_numbers, default=TOKENS, help="such as 1,8,64")
    timing.add_argument("--hidden", type=_numbers, default=HIDDEN, help="such as 4096,8192")
    timing.add_argument(
        "--rounds", type=int, default=ROUNDS, help="samples for each kernel and case"
    )
    timing.add_argument("--json", type=Path, help="write the rows to this file")
    timing.set_defaults(run=time_rivals)
    soaking = commands.add_parser("soak", help="make many calls and compare each on the device")
    soaking.set_defaults(run=soak)
    faults = commands.add_parser("faults", help="judge planted faults")
    faults.add_argument("--only", default="", help="faults whose names contain this")
    faults.set_defaults(run=try_faults)
    commands.add_parser(
        "quantised", help="print a kernel of allreduce_add_rmsnorm_quant_fp8"
    ).set_defaults(run=print_quantised)
    for one in (timing, soaking):
        one.add_argument("kernel", type=Path)
    for one in (timing, soaking, faults):
        one.add_argument("--task", default=TASK, help="a task for several GPUs")
        one.add_argument("--device", choices=("cuda", "virtual"), default="cuda")
        one.add_argument("--calls", type=int, help=f"number of calls; default of a soak: {SOAK:,}")
        one.add_argument("--seed", help="seed, up to 32 hex digits; fresh by default")
    options = parser.parse_args()
    sys.exit(options.run(options))


if __name__ == "__main__":
    main()
