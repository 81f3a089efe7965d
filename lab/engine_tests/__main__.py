"""Do SGLang's own tests of operators give the same results with a package's winners as without?

    python -m lab.engine_tests PACKAGE --tests WHEEL|DIR -o DIR    runs them, on a GPU with SGLang
    python -m lab.engine_tests RESULTS.jsonl...                    prints earlier results again

SGLang's wheels up to 0.5.12 contain its tests (sglang/jit_kernel/tests); further_tests.py has tests
of operators without one. Only tests that reach a hooked function are run. Each runs twice in one
process, on equal random numbers: with winners (even where they are not faster) and without. The
processes share the tests and the GPUs, and a command that was stopped resumes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from astra_chat.package.checking import unpacked
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors

INSIDE = Path(__file__).resolve().parent / "inside"
IN_WHEEL = "sglang/jit_kernel/tests/"
TESTS = {
    "test_activation.py": "",
    "test_fused_add_rmsnorm.py": "",
    "test_rmsnorm.py": "::test_rmsnorm",
    "test_rope.py": "::test_fused_rope_store",
    "test_pos_enc.py": "::test_correctness",
    "test_moe_align_block_size.py": "",
}
"""Files, and the one function of them that reaches a hooked one; empty: all do."""
POISONED = 77
"""Exit code of a process after a fault of the GPU: the tests that are left need another."""
ENDED = (0, 1, 2, 5)
"""Those of pytest: all passed, some failed, stopped for want of time, no test in this share."""
GRACE_S = 20


def copied_tests(given: Path, folder: Path, only: Sequence[str] = ()) -> list[str]:
    """The tests to run, copied from a wheel or a folder. Raises BadInput."""
    folder.mkdir()
    further = INSIDE / "further_tests.py"
    chosen = [name for name in (*TESTS, further.name) if name in only or not only]
    for name in chosen:
        if name == further.name:
            (folder / name).write_bytes(further.read_bytes())
            continue
        try:
            if given.is_dir():
                content = (given / name).read_bytes()
            else:
                with zipfile.ZipFile(given) as wheel:
                    content = wheel.read(IN_WHEEL + name)
        except (OSError, KeyError, zipfile.BadZipFile):
            raise BadInput(f"{given} has no {name}: SGLang 0.5.12's wheel has it") from None
        (folder / name).write_bytes(content)
    return [f"{name}{TESTS.get(name, '')}" for name in chosen]


def run_shards(
    site: Path, folder: Path, tests: Sequence[str], given: argparse.Namespace
) -> list[Path]:
    """Run all tests; the files of results. A process that a fault of the GPU ended is followed by
    one with the tests that are left."""
    last = time.time() + given.limit
    given.out.mkdir(parents=True, exist_ok=True)
    results = [given.out / f"{number}.jsonl" for number in range(given.workers)]

    def start(number: int) -> subprocess.Popen[bytes]:
        paths = [str(site), str(INSIDE), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "CUDA_VISIBLE_DEVICES": str(number % given.gpus),
            "ASTRA_WINNERS_TRIAL": "1",
            "ASTRA_TESTS_SHARD": f"{number}/{given.workers}",
            "ASTRA_TESTS_RESULTS": str(results[number].absolute()),
            "ASTRA_TESTS_UNTIL": str(last),
            "ASTRA_TESTS_MEMORY": str(round(0.9 * given.gpus / given.workers, 3)),
        }
        command = [str(given.python), "-m", "pytest", "-q", "-p", "engine_tests_plugin"]
        options = [
            "--tb=line",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            "--rootdir",
            str(folder),
        ]
        with (given.out / f"{number}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, *options, *tests], cwd=folder, env=env, stdout=log, stderr=log
            )

    running = {number: start(number) for number in range(given.workers)}
    while running and time.time() < last + GRACE_S:
        for number, process in list(running.items()):
            if process.poll() is not None:
                del running[number]
                if process.returncode == POISONED and time.time() < last:
                    running[number] = start(number)
                elif process.returncode not in ENDED:
                    print(
                        f"process {number} ended with exit code {process.returncode}: see its log"
                    )
        time.sleep(0.2)
    for number, process in running.items():
        process.kill()
        print(f"process {number} did not end in time")
    return [path for path in results if path.exists()]


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("given", nargs="+", type=Path, metavar="PACKAGE|RESULTS")
    parser.add_argument("--tests", type=Path, metavar="WHEEL|DIR")
    parser.add_argument("-o", "--out", type=Path, metavar="DIR")
    parser.add_argument("--only", nargs="+", default=(), metavar="FILE")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--limit", type=float, default=240.0, help="seconds")
    given = parser.parse_args()
    if all(path.suffix == ".jsonl" for path in given.given):
        files = given.given
    elif given.tests is None or given.out is None or len(given.given) != 1:
        raise BadInput("give one PACKAGE with --tests and -o, or files of results")
    else:
        with (
            unpacked(given.given[0]) as site,
            tempfile.TemporaryDirectory(prefix="astra-tests-") as name,
        ):
            folder = Path(name).resolve() / "tests"
            files = run_shards(site, folder, copied_tests(given.tests, folder, given.only), given)
    print("\n".join(summary(read_results(files))))


VARIANTS = ("with", "without")


class TestResult(Value):
    """One test with winners, or without."""

    __test__ = False

    test: str
    variant: str
    outcome: str
    why: str
    took: int
    """Calls that winners took in it."""


class CallCounts(Value):
    """What became of one process's calls: operator, what, reason, count."""

    counts: tuple[tuple[str, str, str, int], ...]


LINE: TypeAdapter[TestResult | CallCounts] = TypeAdapter(TestResult | CallCounts)


@dataclass
class TestsFound:
    """The tests of all processes."""

    tests: dict[str, dict[str, TestResult]] = field(default_factory=dict)
    """Results of a test by variant, by its name."""
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)


def read_results(paths: Iterable[Path]) -> TestsFound:
    """Raises BadInput."""
    found = TestsFound()
    for path in paths:
        for line in path.read_text().splitlines():
            try:
                one = LINE.validate_python(json.loads(line))
            except (ValueError, ValidationError):
                raise BadInput(f"{path} contains no results of tests") from None
            if isinstance(one, TestResult):
                found.tests.setdefault(one.test, {})[one.variant] = one
            else:
                for *key, count in one.counts:
                    found.counts[key[0], key[1], key[2]] += count
    return found


def summary(found: TestsFound) -> Iterator[str]:
    """Counts by file, each difference, failures of both, and what winners did."""
    files = sorted({test.partition("::")[0] for test in found.tests})
    for file in files:
        tests = [both for test, both in found.tests.items() if test.startswith(f"{file}::")]
        yield f"{file}: " + "; ".join(_counts(variant, tests) for variant in VARIANTS)
    differing = [both for both in found.tests.values() if _differ(both)]
    yield f"tests whose outcome differs: {len(differing)}"
    for both in differing:
        yield "  " + "; ".join(_words(both[variant]) for variant in VARIANTS)
    failed = [one for both in found.tests.values() if not _differ(both) for one in both.values()]
    reasons = Counter(one.why[:120] for one in failed if one.outcome == "failed")
    yield f"failed in both: {sum(reasons.values()) // len(VARIANTS)}"
    yield from (f"  {count}x {why}" for why, count in reasons.most_common(20))
    for (operator, what, reason), count in sorted(found.counts.items()):
        if what != "off":
            yield f"{operator:28} {what:10} {count:>8}  {reason}".rstrip()


def _counts(variant: str, tests: Sequence[dict[str, TestResult]]) -> str:
    some = [both[variant] for both in tests if variant in both]
    outcomes = Counter(one.outcome for one in some)
    took = sum(one.took > 0 for one in some)
    counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
    seen = f" (winners ran in {took})" if variant == "with" else ""
    return f"{variant} winners {counts or 'none'}{seen}"


def _differ(both: dict[str, TestResult]) -> bool:
    return len({one.outcome for one in both.values()}) > 1


def _words(one: TestResult) -> str:
    return f"{one.test} {one.variant} winners {one.outcome} {one.why}".rstrip()


if __name__ == "__main__":
    main()
