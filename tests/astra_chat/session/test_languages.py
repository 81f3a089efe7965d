"""A run with `--languages cuda,triton`: prompts, replies, and every place that names a candidate's
language; one such run from its first turn to its end."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from astra_chat.agents.limits import Limits
from astra_chat.agents.reply_errors import unfenced, unusable_language
from astra_chat.agents.roles import instructions
from astra_chat.analysis.recorded_run import load_transcript
from astra_chat.export.flashinfer_bench import solution
from astra_chat.memory.cards import cards_of
from astra_chat.models.open_models import open_models
from astra_chat.package.sglang_pr import pull_request_files
from astra_chat.package.winners import winners
from astra_chat.replay.prompts import prompts
from astra_chat.report.highlight import highlighted
from astra_chat.report.rounds import difference
from astra_chat.session.api import run
from astra_chat.session.recorded_options import command_line
from astra_chat.session.request import SessionOptions, request_for, split
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task, find_task, load_task
from astra_chat.tools.triton.translated import cuda_source
from astra_chat.tools.types import Refused
from astra_chat.transcript.events import RejectedReply
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_chat.verify.bundle_claims import source_file
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.after_a_run import judged_again, report_of, rows_of
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import FixedJudge, on_case, run_options, timed
from tests.tools.triton.samples import SOURCES

TRITON = find_spec("triton") is not None
COLUMNS = SOURCES["moe_sum_reduce"]
REFUSED = COLUMNS.replace("import triton\n", "import torch\nimport triton\n", 1)


@pytest.fixture(scope="module")
def moe() -> Task:
    return find_task("moe_sum_reduce")


def play(task: Task, folder: Path, languages: str = "cuda,triton") -> Path:
    """The scripted run, with a judge that finds the kernel faster."""
    case = task.demo[0][0]
    gain = on_case(timed(1.3, "accepted"), case)
    refused = Refused(gate="guard", findings=())
    tie = on_case(timed(1.0, "tie"), case)
    judge = FixedJudge({task.baseline: tie, COLUMNS: gain, REFUSED: refused})
    options = run_options(languages=languages, rounds=1)
    request = chat_request(
        task,
        folder,
        models=open_models("scripted", task, languages=("cuda", "triton")),
        options=options,
    )
    return run_request(request, judge=judge).transcript


def test_the_option_is_declared_once_and_recorded(moe: Task) -> None:
    options, _ = split({"languages": "triton, cuda"})
    assert options.languages == ("cuda", "triton") == options.limits.languages
    assert options.model_dump()["languages"] == "cuda,triton"
    assert "languages" not in RunOptions().model_dump()
    words = command_line(options, SessionOptions(), ["t"])
    assert words == "astra-chat run t --languages cuda,triton"
    with pytest.raises(BadInput, match="--languages rust: 'rust' is not a language"):
        split({"languages": "rust"})


def test_what_a_run_cannot_have_is_said_at_once(moe: Task, task: Task) -> None:
    with pytest.raises(BadInput, match="moe_sum_reduce needs --languages cuda,triton"):
        request_for(RunOptions(models="scripted"), SessionOptions(task=str(moe.folder)))
    if not TRITON:
        options = RunOptions(models="scripted", languages=("cuda", "triton"))
        with pytest.raises(MissingDependency, match="pip install triton"):
            request_for(options, SessionOptions(task=str(task.folder), device="virtual"))


def test_only_a_run_that_takes_triton_explains_it() -> None:
    both = ("cuda", "triton")
    for role in ("planner", "coder", "fixer", "single"):
        assert "# Rules of a Triton file" in instructions(role, languages=both)
        assert "Rules of a Triton file" not in instructions(role)
    assert "Rules of a Triton file" not in instructions("profiler", languages=both)


@pytest.mark.parametrize(
    ("source", "languages", "words"),
    [
        (COLUMNS, "cuda", "this run takes only kernels in CUDA"),
        ("__global__ void f();", "triton", "only kernels in Triton, with `import triton`"),
        (COLUMNS.replace("import triton\n", ""), "cuda,triton", ""),
        (COLUMNS.replace("import triton", "#"), "cuda,triton", "Python without `import triton`"),
        (COLUMNS + "def (", "cuda,triton", "not valid Python"),
        (
            COLUMNS.replace("def moe_sum_reduce(", "def f("),
            "cuda,triton",
            "def moe_sum_reduce(...)",
        ),
        (COLUMNS, "cuda,triton", ""),
        ("__global__ void f();", "cuda,triton", ""),
    ],
)
def test_a_malformed_kernel_goes_back(moe: Task, source: str, languages: str, words: str) -> None:
    wanted = Limits.model_validate({"languages": languages}).languages
    found = unusable_language(source, moe, wanted)
    assert (found is None) == (not words) and words in (found or "")


def test_a_code_block_is_read_without_its_fence() -> None:
    assert unfenced(f"```python\n{COLUMNS}```\n") == COLUMNS
    assert unfenced(COLUMNS) == COLUMNS


def test_every_place_names_the_language(moe: Task, tmp_path: Path) -> None:
    path = play(moe, tmp_path / "out")
    assert not [one for one in read(path).records if isinstance(one.event, RejectedReply)]
    texts = {one.role: one for one in prompts(read(path))}
    assert (
        "def moe_sum_reduce(input, output, tokens, experts, hidden, scale):" in texts["coder"].user
    )
    assert "import torch" in texts["fixer"].user and "#10" in texts["fixer"].user
    rows = load_transcript(path).evaluations
    assert [row.language for row in rows] == ["cuda", "triton", "triton", "triton"]
    (card,) = cards_of(path)
    assert card.language == "triton" and "in Triton" in card.text
    assert (path.parent / "best.py").read_text() == COLUMNS
    marked = "".join(highlighted(COLUMNS))
    assert '<i class="k">def</i>' in marked.replace("class=k", 'class="k"')
    assert difference(moe.baseline, COLUMNS).added


def test_a_run_with_cuda_alone_sends_triton_back(tmp_path: Path, moe: Task) -> None:
    path = play(moe, tmp_path / "out", "cuda")
    sent = [r.event for r in read(path).records if isinstance(r.event, RejectedReply)]
    assert sent and all("only kernels in CUDA" in one.reason for one in sent)


@pytest.mark.second_tier
@pytest.mark.skipif(not TRITON, reason="Triton is not installed")
def test_a_scripted_run_in_triton_from_its_first_turn_to_its_end(tmp_path: Path) -> None:
    folder = find_task("moe_sum_reduce").folder
    found = run(
        str(folder),
        models="scripted",
        languages="cuda,triton",
        device="virtual",
        mutants=0,
        rounds=1,
        out=tmp_path / "out",
        trust=True,
        seed="52",
    )
    assert found.summary.ended is not None and found.summary.ended.reason == "rounds"
    (one,) = found.summary.rounds
    assert [attempt.verdict for attempt in one.attempts] == ["refused", "tie"]
    assert load_task(folder).name == found.summary.task and not found.summary.deviations
    page = report_of(found.transcript)
    assert "in Triton" in page and "import torch" in page
    rows = rows_of(found.transcript)
    assert [row["language"] for row in rows] == ["cuda", "triton", "triton"]
    assert [row["verdict"] for row in rows] == ["tie", "refused", "tie"]
    assert rows[-1]["source"] == COLUMNS
    again = judged_again(found.transcript)["rejudged"]
    assert [one["agrees"] for one in again] == [True] * 3


@pytest.mark.second_tier
@pytest.mark.skipif(not TRITON, reason="Triton is not installed")
def test_what_leaves_astra_is_cuda(moe: Task, tmp_path: Path) -> None:
    path = play(moe, tmp_path / "out")
    text = cuda_source(COLUMNS, moe, "sm_90")
    row = load_transcript(path).evaluations[-1]
    files = solution(moe, row, "bfloat16", "", "sm_90")["sources"]
    assert {one["path"]: one["content"] for one in files}["kernel.cu"] == text
    with ExitStack() as stack:
        (winner,) = winners([path], stack)
        engine = winner.engine_file()
        assert engine is not None and engine.upstream is not None
        written = pull_request_files(winner, engine.upstream)
    (kernel,) = (text for name, text in written.items() if name.endswith(".cuh"))
    assert text.rstrip() in kernel and "// def moe_sum_reduce(input, output," in kernel
    assert source_file("abc", COLUMNS) == "sources/abc.py"
