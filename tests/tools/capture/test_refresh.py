"""A task.toml with the cases of captured calls; the calls are written down here as a capture writes
them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from astra_chat.tools.capture.calls import Calls, SeenCall, SeenOperator, SeenTensor, SeenValue
from astra_chat.tools.capture.calls import SeenValues as Numbers
from astra_chat.tools.capture.refresh import refresh
from astra_chat.tools.task.folder import BUILTIN, load_task
from astra_vgpu.ground.errors import BadInput

HEADS, KV, SIZE = 8, 2, 128
ROW = (HEADS + 2 * KV) * SIZE


def task(folder: Path, name: str) -> Path:
    copy = folder / name
    shutil.copytree(BUILTIN / name, copy, ignore=shutil.ignore_patterns("*.xz", "script"))
    return copy


def tensor(*shape: int, dtype: str = "bfloat16", buffer: int = 0, **more: object) -> SeenTensor:
    strides, dense = list[int](), 1
    for extent in reversed(shape):
        strides.insert(0, dense)
        dense *= extent
    usual = {"strides": tuple(strides), "device": "cuda", "alignment_bytes": 256}
    return SeenTensor.model_validate(
        {"shape": shape, "dtype": dtype, "buffer": buffer, **usual, **more}
    )


def calls(*found: SeenCall, name: str = "ops:f", declared: str = "") -> Calls:
    operator = SeenOperator(name=name, declared=declared, calls=found)
    return Calls(program=("python", "main.py"), ended="exit code 0", operators=(operator,))


def rotary(tokens: int, count: int, *, packed: bool = True, dtype: str = "bfloat16") -> SeenCall:
    """A call as SGLang makes it: heads are joined to rows, in a packed qkv or alone."""
    strides = {"strides": (ROW, 1)} if packed else {}
    query = tensor(tokens, HEADS * SIZE, dtype=dtype, buffer=1, **strides)
    place = {"offset_bytes": HEADS * SIZE * 2} if packed else {}
    key = tensor(tokens, KV * SIZE, dtype=dtype, buffer=1 if packed else 2, **strides, **place)
    positions = tensor(tokens, dtype="int64", values=Numbers(least=0, greatest=tokens))
    return SeenCall(
        count=count,
        tensors={
            "positions": positions,
            "query": query,
            "key": key,
            "cos_sin_cache": tensor(4096, SIZE, dtype=dtype, buffer=3),
        },
        values={"head_size": SeenValue(type="int", value=SIZE)},
    )


def test_the_bench_list_is_refreshed_and_all_other_text_stays(tmp_path: Path) -> None:
    folder = task(tmp_path, "rotary_embedding")
    before = (folder / "task.toml").read_text()
    done = refresh(folder, calls(rotary(1, 100), rotary(512, 7), rotary(64, 3, packed=False)))
    assert (done.cases, done.share, done.lines) == (3, 1.0, ())
    after = (folder / "task.toml").read_text()
    start, end = before.index("bench = ["), before.index("demo = [")
    assert after.startswith(before[:start]) and after.endswith(before[end:])
    bench = load_task(folder).bench
    assert [weight for _, weight in bench] == [100, 7, 3]
    assert bench[0][0].dims["tokens"] == 1 and bench[0][0].dims["heads"] == HEADS
    pads = {"query": (2 * KV * SIZE, 0), "key": ((HEADS + KV) * SIZE, 0)}
    assert bench[1][0].pads == pads and bench[1][0].packed == "", "rows of one buffer"
    assert bench[2][0].pads == {}


def test_equal_strides_in_buffers_of_their_own_are_apart(tmp_path: Path) -> None:
    folder, call = task(tmp_path, "rotary_embedding"), rotary(16, 1)
    key = call.tensors["key"].model_copy(update={"buffer": 9, "offset_bytes": 0})
    call = call.model_copy(update={"tensors": {**call.tensors, "key": key}})
    refresh(folder, calls(call))
    ((case, _),) = load_task(folder).bench
    assert case.packed == "apart" and case.pads


def test_with_the_domain_checks_and_dims_are_those_of_the_calls(tmp_path: Path) -> None:
    folder = task(tmp_path, "rotary_embedding")
    refresh(folder, calls(rotary(4, 5), rotary(512, 7), rotary(9, 1)), domain_too=True)
    found = load_task(folder)
    assert (found.dims["tokens"].min, found.dims["tokens"].max) == (4, 512)
    assert found.dims["head_size"].values == (SIZE,)
    assert [case.dims["tokens"] for case in found.check] == [4, 9, 512]
    assert {case.dims["tokens"] for case, _ in found.demo} == {4, 9, 512}


def test_calls_that_are_no_case_are_said_and_the_others_taken(tmp_path: Path) -> None:
    folder, mixed = task(tmp_path, "rotary_embedding"), rotary(2, 4)
    key = mixed.tensors["key"].model_copy(update={"dtype": "float32"})
    mixed = mixed.model_copy(update={"tensors": {**mixed.tensors, "key": key}})
    done = refresh(folder, calls(rotary(1, 6), mixed))
    assert done.share == 0.6
    (line,) = done.lines
    assert line.startswith("outside the contract: 4 calls: 'key' is float32") and "T" in line


def test_what_calls_do_beyond_the_contract_is_said(tmp_path: Path) -> None:
    folder, call = task(tmp_path, "rotary_embedding"), rotary(3, 2)
    changes = {
        "positions": {"values": Numbers(least=0, greatest=4096)},
        "cos_sin_cache": {"written": True},
    }
    tensors = {
        name: one.model_copy(update=changes.get(name, {})) for name, one in call.tensors.items()
    }
    done = refresh(folder, calls(call.model_copy(update={"tensors": tensors})))
    assert done.lines == (
        "in 2 calls 'positions' contains 0 to 4096, but the contract says from 0 to below 4096",
        "in 2 calls 'cos_sin_cache' is written, but the contract says access = \"read\"",
    )


def silu(count: int, *shape: int, names: tuple[str, str] = ("x", "y")) -> SeenCall:
    *rows, width = shape
    return SeenCall(
        count=count,
        tensors={names[1]: tensor(*shape, buffer=0)},
        values={},
        results={"result": tensor(*rows, width // 2, buffer=1)},
    )


def test_a_result_and_leading_axes_fit_an_argument_and_one_axis(tmp_path: Path) -> None:
    folder = task(tmp_path, "silu_and_mul")
    refresh(folder, calls(silu(3, 2, 5, 256)), map_texts=["input=y", "out=result"])
    ((case, weight),) = load_task(folder).bench
    assert (case.dims, weight) == ({"tokens": 10, "d": 128}, 3)


@pytest.mark.parametrize(
    ("change", "maps", "said"),
    [
        (
            silu(1, 4, 255),
            ["input=y", "out=result"],
            "no call of ops:f fits the contract: input[1] is 255",
        ),
        (silu(1, 4, 256), ["input=z"], "the operator has no 'z': y, result"),
        (silu(1, 4, 256), ["nothing=y"], "the contract has no 'nothing'"),
        (silu(1, 4, 256), ["input"], "write NAME=PARAMETER"),
        (
            SeenCall(count=1, tensors={"y": tensor(4, 256)}, values={}),
            [],
            "which of its tensors (y) is 'out' in the contract?",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line_and_changes_nothing(
    tmp_path: Path, change: SeenCall, maps: list[str], said: str
) -> None:
    folder = task(tmp_path, "silu_and_mul")
    before = (folder / "task.toml").read_text()
    with pytest.raises(BadInput) as error:
        refresh(folder, calls(change), map_texts=maps)
    assert said in str(error.value) and "\n" not in str(error.value)
    assert (folder / "task.toml").read_text() == before


def test_of_several_operators_one_is_chosen(tmp_path: Path) -> None:
    folder, one = task(tmp_path, "silu_and_mul"), calls(silu(1, 4, 256))
    both = one.model_copy(
        update={"operators": (*one.operators, *calls(silu(2, 8, 256), name="ops:g").operators)}
    )
    with pytest.raises(BadInput, match=r"2 operators in the captured calls .*--calls-of"):
        refresh(folder, both)
    refresh(folder, both, "ops:g", ["input=y", "out=result"])
    assert load_task(folder).bench[0][0].dims["tokens"] == 8


def test_scalars_of_the_calls_become_the_usual_values(tmp_path: Path) -> None:
    folder = task(tmp_path, "rmsnorm")
    eps = SeenValue(type="float", counts=((1e-5, 2), (1e-6, 8)))
    names = {arg.name: arg for arg in load_task(folder).args}
    given = {
        name: tensor(*([4, 64] if len(arg.shape) == 2 else [64]), buffer=at)
        for at, (name, arg) in enumerate(names.items())
    }
    refresh(folder, calls(SeenCall(count=10, tensors=given, values={"eps": eps})), domain_too=True)
    (scalar,) = load_task(folder).scalars
    assert scalar.value == 1e-6 and scalar.others == (1e-5,)


def test_views_of_one_buffer_become_a_group_of_the_contract(tmp_path: Path) -> None:
    folder = task(tmp_path, "rotary_embedding")
    path = folder / "task.toml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("packed = ")))
    done = refresh(folder, calls(rotary(4, 5), rotary(8, 1, packed=False)), domain_too=True)
    found = load_task(folder)
    assert [group.args for group in found.packed] == [("query", "key")] and not found.same
    assert found.bench[0][0].packed == "" and found.bench[0][0].pads and not done.lines


def test_one_pointer_for_two_arguments_becomes_a_group_of_the_contract(tmp_path: Path) -> None:
    folder = task(tmp_path, "rmsnorm")
    args = [arg for arg in load_task(folder).args if len(arg.shape) == 2]
    given = {arg.name: tensor(4, 64, buffer=0) for arg in args}
    weight = {"weight": tensor(64, buffer=1)}
    refresh(
        folder, calls(SeenCall(count=1, tensors={**given, **weight}, values={})), domain_too=True
    )
    found = load_task(folder)
    assert [set(group.args) for group in found.same] == [{arg.name for arg in args}]
    assert found.bench[0][0].packed == "same"
