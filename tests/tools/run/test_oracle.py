"""The oracle process: inputs and float64 results as files, made once; its own failures worded."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.check.floats import as_float
from astra_chat.tools.run import oracle as module
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.oracle_process import (
    CASES_EACH,
    LARGE_BYTES,
    SHARED_CASES,
    most_processes,
    shared_out,
)
from astra_chat.tools.sandbox.isolation import ENOUGH, isolation
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.task.folder import BUILTIN, find_task, load_task
from astra_chat.tools.types import Case, ValueFamily
from astra_vgpu.ground.errors import BadInput

TASK = find_task("silu_and_mul")
OUT, INPUT = TASK.args
HOSTILE = """
import os, socket, subprocess
from pathlib import Path

ATTEMPTS = {
    "read a file of the user": lambda: Path("SECRET").read_text(),
    "write beside itself": lambda: Path(__file__).with_name("left").write_text("here"),
    "write outside": lambda: Path("SECRET").with_name("left").write_text("here"),
    "list the home folder": lambda: os.listdir(Path.home()),
    "open a socket": socket.socket,
    "start a program": lambda: subprocess.run(["/bin/true"]),
    "fork": lambda: os.fork() or os._exit(0),
    "signal the judge": lambda: os.kill(os.getppid(), 0),
}
assert "tokens" in Path(__file__).with_name("task.toml").read_text(), "its folder is its own"
through = []
for name, attempt in ATTEMPTS.items():
    try:
        attempt()
        through.append(name)
    except OSError:
        pass
if through:
    raise AssertionError(f"got through: {through}")
"""

LINKS = """
import sys
from pathlib import Path

def handed(name):
    frame = sys._getframe()
    while not isinstance(frame.f_locals.get(name), str | dict):
        frame = frame.f_back
    return frame.f_locals[name]

def linked(path):
    try:
        path.symlink_to("SECRET")
    except OSError:
        return False
    return True

request = Path(handed("line").strip())
what, number, whose = request.stem.split("-")
for ahead in range(1, 20):
    linked(request.with_name(f"{what}-{int(number) + ahead}-{whose}.json"))

def accept(inputs, outputs):
    folders = [Path(handed("item")[name]) for name in ("outputs", "inputs")]
    through = [folder.name for folder in folders if linked(folder / "link")]
    return f"got through: {through}" if through else None
"""
"""A reference.py that puts links where it expects the judge's next files."""


@pytest.fixture
def oracle() -> Iterator[Oracle]:
    made = Oracle(TASK)
    yield made
    made.close()


def case(values: ValueFamily = "normal", seed: int = 0) -> Case:
    return Case(dims={"tokens": 5, "d": 24}, dtype="float16", values=values, seed=seed)


def input_of(oracle_case: OracleCase) -> np.ndarray:  # type: ignore[type-arg]
    content = np.fromfile(oracle_case.input_path(INPUT), dtype=np.uint8)
    return as_float(content, "float16").reshape(5, 48)


@pytest.mark.second_tier
def test_expected_is_silu_in_float64(oracle: Oracle) -> None:
    (oracle_case,) = oracle.oracle_cases([case()], Stop())
    x = input_of(oracle_case)
    gate, up = x[:, :24], x[:, 24:]
    silu = gate / (1 + np.exp(-gate)) * up
    np.testing.assert_allclose(oracle_case.expected(OUT).reshape(5, 24), silu, rtol=1e-12)


@pytest.mark.second_tier
def test_a_seed_decides_the_inputs_and_is_made_once(oracle: Oracle) -> None:
    made: list[int] = []
    first, other = oracle.oracle_cases([case(seed=1), case(seed=2)], Stop(), made.append)
    assert made == [1, 2]
    assert not np.array_equal(input_of(first), input_of(other))
    (again,) = oracle.oracle_cases([case(seed=1)], Stop(), made.append)
    assert again == first and made == [1, 2]


@pytest.mark.second_tier
def test_the_value_families_are_what_they_say(oracle: Oracle) -> None:
    families: list[ValueFamily] = [
        "large",
        "tiny",
        "ramp",
        "one_hot",
        "heavy_tail",
        "binary",
        "denormal",
    ]
    odd = [case("special").model_copy(update={"seed": seed}) for seed in range(8)]
    oracle_cases = oracle.oracle_cases([*odd, *(case(values) for values in families)], Stop())
    special = np.stack([input_of(one) for one in oracle_cases[:8]])
    large, tiny, ramp, one_hot, heavy_tail, binary, denormal = map(input_of, oracle_cases[8:])
    assert 40 < large.std() < 90
    assert 0 < np.abs(tiny).max() < 1e-3
    assert len(np.unique(ramp)) == ramp.size
    assert (one_hot.sum(axis=1) == 1).all() and ((one_hot == 0) | (one_hot == 1)).all()
    assert np.isnan(special).any() and np.isinf(special).any()
    heavy = np.sort(np.abs(heavy_tail), axis=None)
    assert heavy[-10:].sum() > heavy[:-10].sum() / 2 and heavy[-1] <= 200
    least = np.finfo(np.float16).tiny
    assert 0 < np.abs(denormal).max() < least and np.unique(denormal).size > denormal.size / 2
    assert set(binary.flat) == {0.0, 1.0} and 0.3 < binary.mean() < 0.7


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"out"', '"output"', "no 'out'"),
        (".double()", ".float()", "torch.float32"),
        ("def reference(", "def reference_(", "it defines no function `reference`"),
        ("def reference(", "def (", "SyntaxError: invalid syntax"),
    ],
)
@pytest.mark.second_tier
def test_a_broken_reference_is_the_users_to_mend(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    folder = tmp_path / "task"
    shutil.copytree(BUILTIN / "silu_and_mul", folder)
    text = (folder / "reference.py").read_text()
    assert old in text
    (folder / "reference.py").write_text(text.replace(old, new))
    broken = Oracle(load_task(folder))
    with pytest.raises(BadInput, match=r"reference\.py.*case 5x24 float16") as caught:
        broken.oracle_cases([case()], Stop())
    broken.close()
    assert said in str(caught.value)
    assert ("reference.py:19: " in str(caught.value)) == ("defines" not in said)


@pytest.mark.second_tier
def test_a_reference_that_cannot_be_judged_by_is_refused_with_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    shutil.copytree(BUILTIN / "silu_and_mul", folder)
    text = (folder / "reference.py").read_text()
    broken = text.replace('inputs["input"].double()', 'inputs["input"].mul_(2).double()')
    assert broken != text
    for content, sound in ((broken, False), (text, True)):
        (folder / "reference.py").write_text(content)
        oracle = Oracle(load_task(folder))
        try:
            oracle.require_sound(Stop())
            assert sound
        except BadInput as error:
            assert not sound
            words = "reference.py:19: reference writes to its input 'input' (case 1x8 float16)"
            assert words in str(error)
        finally:
            oracle.close()


OF_ITS_PROCESS = """
import os
import torch

def make_inputs(case, generator):
    made = torch.zeros(case.dims["tokens"], 2 * case.dims["d"], dtype=case.dtype)
    made[0, :2] = torch.tensor([os.getpid() // 1000, os.getpid() % 1000])
    return {"input": made}

def reference(inputs):
    gate, up = inputs["input"].double().chunk(2, dim=-1)
    return {"out": gate * up}
"""
"""Its inputs say which process made them."""


def of_process(oracle_case: OracleCase) -> int:
    thousands, rest = input_of(oracle_case)[0, :2]
    return int(1000 * thousands + rest)


def test_one_process_serves_until_it_is_closed_and_two_share_many_cases(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    shutil.copytree(BUILTIN / "silu_and_mul", folder)
    (folder / "reference.py").write_text(OF_ITS_PROCESS)
    oracle, seeds = Oracle(load_task(folder)), itertools.count()
    shared = min(most_processes(), SHARED_CASES // CASES_EACH)
    served, counts = set[int](), [1, 2, SHARED_CASES - 1, SHARED_CASES, 1]
    for count in counts:
        cases = [case(seed=next(seeds)) for _ in range(count)]
        made: list[int] = []
        found = [of_process(one) for one in oracle.oracle_cases(cases, Stop(), made.append)]
        assert made == list(range(1, count + 1))
        assert len(set(found)) == (shared if count == SHARED_CASES else 1)
        served |= set(found)
    assert len(served) == shared
    assert all(Path(f"/proc/{pid}").exists() for pid in served)
    oracle.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in served)


@pytest.mark.parametrize("most", [1, 2, 8])
def test_large_cases_are_all_made_by_one_process(most: int) -> None:
    sizes = [2**10, LARGE_BYTES + 1, 2**20] * SHARED_CASES
    first, *others = shared_out(sizes, most)
    assert sorted([*first, *(place for share in others for place in share)]) == [*range(len(sizes))]
    assert all(sizes[place] <= LARGE_BYTES for share in others for place in share)
    assert len(others) == min(most, len(sizes) // CASES_EACH) - 1 and all(others)
    assert shared_out(sizes[: SHARED_CASES - 1], most) == [[*range(SHARED_CASES - 1)]]


def test_the_largest_cases_are_shared_out_first() -> None:
    sizes = [1] * (3 * SHARED_CASES) + [2**20] * 4
    assert [sum(sizes[place] > 1 for place in share) for share in shared_out(sizes, 4)] == [1] * 4


def test_what_fails_in_one_of_two_processes_ends_both(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    shutil.copytree(BUILTIN / "silu_and_mul", folder)
    text = (folder / "reference.py").read_text()
    odd = '    if case.dims["tokens"] == 7:\n        raise ValueError("seven")\n'
    head, draw, rest = text.partition("    tokens, d = case.dims")
    (folder / "reference.py").write_text(head + odd + draw + rest)
    oracle = Oracle(load_task(folder))
    cases = [case(seed=seed) for seed in range(2 * SHARED_CASES)]
    seven = Case(dims={"tokens": 7, "d": 24}, dtype="float16")
    with pytest.raises(BadInput, match=r"ValueError: seven \(case 7x24 float16"):
        oracle.oracle_cases([*cases[:SHARED_CASES], seven, *cases[SHARED_CASES:]], Stop())
    assert len(oracle.oracle_cases(cases, Stop())) == len(cases)
    oracle.close()


def test_what_is_forgotten_is_made_again(oracle: Oracle) -> None:
    (oracle_case,) = oracle.oracle_cases([case()], Stop())
    first = input_of(oracle_case)
    oracle.forget(oracle_case)
    assert not oracle_case.input_path(INPUT).exists()
    (again,) = oracle.oracle_cases([case()], Stop())
    assert np.array_equal(first, input_of(again))


def test_after_a_stop_it_serves_again(oracle: Oracle) -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Cancelled):
        oracle.oracle_cases([case(seed=1)], stop)
    (oracle_case,) = oracle.oracle_cases([case(seed=1)], Stop())
    assert input_of(oracle_case).shape == (5, 48)


def test_it_can_be_stopped(oracle: Oracle) -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Cancelled):
        oracle.oracle_cases([case()], stop)


def test_ahead_makes_what_is_asked_for_later(oracle: Oracle) -> None:
    wanted = [case(seed=seed) for seed in range(20, 26)]
    oracle.ahead(wanted)
    (between,) = oracle.oracle_cases([case(seed=99)], Stop())
    oracle_cases = oracle.oracle_cases(wanted, Stop())
    assert (
        len({tuple(input_of(oracle_case)[0, :8]) for oracle_case in (*oracle_cases, between)}) == 7
    )
    made: list[int] = []
    oracle.oracle_cases(wanted, Stop(), made.append)
    assert not made, "nothing is made twice"


@pytest.mark.second_tier
def test_what_fails_ahead_is_told_to_whoever_asks_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    shutil.copytree(BUILTIN / "silu_and_mul", folder)
    (folder / "reference.py").write_text("raise ValueError('not today')\n")
    broken = Oracle(load_task(folder))
    broken.ahead([case(seed=1)])
    with pytest.raises(BadInput, match="not today"):
        broken.oracle_cases([case(seed=1)], Stop())
    broken.close()


@pytest.mark.second_tier
def test_it_can_be_closed_while_it_makes_some_ahead() -> None:
    """Cases without end are asked for: it is closed between two of them."""
    busy, asked = Oracle(TASK), itertools.count()
    made = threading.Event()

    def endless() -> Iterator[Case]:
        for seed in asked:
            if seed == 2:
                made.set()
            yield case(seed=seed)

    busy.ahead(endless())  # type: ignore[arg-type]
    assert made.wait(120)
    busy.close()
    assert busy._ahead is not None and not busy._ahead.is_alive()


@pytest.mark.skipif(isolation() not in ENOUGH, reason="this machine isolates nothing")
@pytest.mark.second_tier
def test_a_strangers_reference_reaches_nothing_of_the_users(tmp_path: Path) -> None:
    """The reference is a stranger's, as in a transcript that somebody sent and that is judged
    again."""
    folder, secret = tmp_path / "task", tmp_path / "secret"
    shutil.copytree(BUILTIN / "silu_and_mul", folder)
    secret.write_text("key")
    honest = (folder / "reference.py").read_text()
    (folder / "reference.py").write_text(honest + HOSTILE.replace("SECRET", str(secret)))
    strange = Oracle(load_task(folder))
    (oracle_case,) = strange.oracle_cases([case()], Stop())
    assert input_of(oracle_case).shape == (5, 48)
    strange.close()
    assert not list(tmp_path.rglob("left"))


@pytest.mark.skipif(isolation() not in ENOUGH, reason="this machine isolates nothing")
@pytest.mark.second_tier
def test_the_judge_writes_where_a_reference_can_place_no_links(tmp_path: Path) -> None:
    folder, secret = tmp_path / "task", tmp_path / "secret"
    shutil.copytree(BUILTIN / "silu_and_mul", folder)
    secret.write_text("key")
    honest = (folder / "reference.py").read_text()
    (folder / "reference.py").write_text(honest + LINKS.replace("SECRET", str(secret)))
    linking = Oracle(load_task(folder))
    (own,) = linking.oracle_cases([case()], Stop())
    shutil.copy(own.input_path(INPUT), tmp_path)
    (given,) = linking.on_inputs([(case(), tmp_path)], Stop())
    assert given.answer({OUT.name: np.zeros(5 * 24 * 2, np.uint8)}).why == ""
    linking.close()
    assert secret.read_text() == "key"


def test_a_reference_that_never_ends_is_the_users_to_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ORACLE_TIMEOUT_S", 1.0)
    folder = tmp_path / "task"
    shutil.copytree(BUILTIN / "silu_and_mul", folder)
    (folder / "reference.py").write_text("while True:\n    pass\n")
    endless = Oracle(load_task(folder))
    with pytest.raises(BadInput, match=r"reference\.py took more than 1 s"):
        endless.oracle_cases([case()], Stop())
    endless.close()


@pytest.mark.second_tier
def test_all_bits_of_a_seed_count(oracle: Oracle) -> None:
    """The upper half, which torch's generator ignores, tells a case's further seeds apart."""
    seeds = [7, 7 + 2**32, 7 + 2**48, 7 + 2**49, 2**62 + 7, -7]
    oracle_cases = oracle.oracle_cases([case(seed=seed) for seed in seeds], Stop())
    assert len({input_of(oracle_case).tobytes() for oracle_case in oracle_cases}) == len(seeds)


@pytest.mark.second_tier
def test_results_for_inputs_that_are_there(oracle: Oracle, tmp_path: Path) -> None:
    (own,) = oracle.oracle_cases([case()], Stop())
    values = np.fromfile(own.input_path(INPUT), dtype=np.float16)
    reversed_rows = np.ascontiguousarray(values.reshape(5, -1)[::-1])
    reversed_rows.tofile(tmp_path / "input.in")
    (made,) = oracle.on_inputs([(case(), tmp_path)], Stop())
    assert np.array_equal(made.expected(OUT).reshape(5, -1)[::-1].ravel(), own.expected(OUT))
    assert np.array_equal(
        np.fromfile(made.input_path(INPUT), dtype=np.float16), reversed_rows.ravel()
    )
    assert not (tmp_path / "input.in").exists() and made.folder != own.folder
    oracle.forget(made)
    assert not made.folder.exists() and not made.inputs.exists()
    assert oracle.on_inputs([], Stop()) == []


def test_a_reference_for_its_own_dtypes_alone_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its results have no derived sums: who looks for bands finds out why there are none."""
    folder = Path(shutil.copytree(BUILTIN / "silu_and_mul", tmp_path / "silu_and_mul"))
    reference = folder / "reference.py"
    text = reference.read_text().replace("def terms(", "def unused_terms(")
    begun = "def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:\n"
    assert begun in text
    refused = 'inputs = dict(inputs)\n    assert inputs["input"].dtype == torch.float16\n'
    reference.write_text(text.replace(begun, f"{begun}    {refused}"))
    oracle = Oracle(load_task(folder))
    with caplog.at_level("INFO", "astra_chat"):
        (found,) = oracle.oracle_cases([case()], Stop())
    assert not list(found.folder.glob("*.derived"))
    oracle.close()
    assert "does not accept float64: AssertionError" in caplog.text
