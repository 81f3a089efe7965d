"""`python -m astra_winners`: show what is hooked in the installed engine, and what servers
counted."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from astra_winners import counting
from astra_winners.operators import PACKAGED


def check(engine: str) -> int:
    """Load the engine's plugins as it does itself, and print each hook. 1: not every one is set."""
    from astra_winners import plugin

    try:
        if engine == "sglang":
            from sglang.srt.plugins import load_plugins
        else:
            from vllm.plugins import load_general_plugins as load_plugins
        load_plugins()
    except ImportError as error:
        print(f"{engine} cannot be imported here: {error}", file=sys.stderr)
        return 3
    for fit in plugin.FITS:
        print(fit.words)
    if not plugin.FITS:
        print(f"{engine} loaded no plugin of this package: is it installed and enabled?")
    return 0 if plugin.FITS and not any(fit.why_not for fit in plugin.FITS) else 1


def counters(files: list[Path]) -> int:
    """Print what all processes counted together."""
    try:
        counts = counting.read(files)
    except (OSError, ValueError) as error:
        print(f"these are not counters: {error}", file=sys.stderr)
        return 2
    print("\n".join(counting.lines(counts)))
    return 0


def contents() -> int:
    """Print each operator with its candidate and its run."""
    for name, made in PACKAGED["operators"].items():
        print(f"{name}: candidate {made['candidate']} of run {made['run']}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m astra_winners", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="what is hooked in the installed engine")
    commands.add_parser("contents", help="operators and candidates of this package")
    read = commands.add_parser("counters", help=f"sum up the files of {counting.VARIABLE}")
    read.add_argument("files", type=Path, nargs="+", metavar="FILE")
    given = parser.parse_args()
    if given.command == "check":
        return check(PACKAGED["engine"])
    return counters(given.files) if given.command == "counters" else contents()


if __name__ == "__main__":
    sys.exit(main())
