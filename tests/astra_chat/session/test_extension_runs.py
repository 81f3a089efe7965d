"""A run with `--languages cuda,torch` on a small module task: prompts, replies, and the scripted
roles' torch extension from its first refusal to the winner."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.limits import Limits
from astra_chat.agents.reply_errors import unusable_language
from astra_chat.agents.roles import instructions
from astra_chat.analysis.recorded_run import load_transcript
from astra_chat.models.open_models import open_models
from astra_chat.replay.prompts import prompts
from astra_chat.session.request import SessionOptions, request_for
from astra_chat.session.session import run_request
from astra_chat.tools.extension.evaluating import ON_VIRTUAL
from astra_chat.tools.extension.guard import extension_findings
from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.triton.translated import cuda_source
from astra_chat.tools.tuning.space import read_space
from astra_chat.tools.types import Refused, Unsupported
from astra_chat.transcript.events import RejectedReply
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import FixedJudge, on_case, run_options, timed
from tests.tools.extension.samples import FUSED, HEAD, module_task

BASELINE = "// Plain kernels.\n"
KEPT = "static torch::Tensor weight_;\n"
SCRIPT = """
[[tester]]
words = "A single row."
cases = [{ rows = 2, dtype = "float32", values = "normal", why = "few rows" }]

[[round]]
[round.plan]
title = "The library's product, and one kernel behind it"
change = "As a torch extension: at::addmm, then one kernel for GELU and the softmax of a row."
why = "cuBLAS does most of the work; the rest is one pass over the rows."
anchor = "Plain kernels."
metric = "METRIC"
predicted_ratio = 1.3
moves = "down"
risk = "two launches"
[round.coder]
file = "fused.cu"
words = "The weight is kept between calls."
expects = "refused"
[[round.coder.edits]]
find = "#include <torch/extension.h>\\n"
replace = "#include <torch/extension.h>\\nstatic torch::Tensor weight_;\\n"
[[round.fixer]]
file = "fused.cu"
words = "Nothing is kept any more."
expects = "accepted"
[round.profiler]
words = "One pass over the rows is left."
evidence = ["METRIC"]
bottleneck = "memory"
next = "stop"
"""


@pytest.fixture
def module(tmp_path: Path) -> Task:
    folder = module_task(tmp_path)
    (folder / "baseline.cu").write_text(BASELINE)
    (folder / "script").mkdir()
    metric = timed(1.0, "tie").profile.metrics[0].name
    (folder / "script" / "script.toml").write_text(SCRIPT.replace("METRIC", metric))
    (folder / "script" / "fused.cu").write_text(FUSED)
    return load_task(folder)


def test_only_a_run_that_takes_extensions_explains_them(module: Task) -> None:
    both = ("cuda", "torch")
    for role in ("planner", "coder", "fixer", "single"):
        text = instructions(role, languages=both)
        assert "# Rules of a torch extension" in text and "torch.compile as a graph" in text
        assert "Rules of a torch extension" not in instructions(role)
    assert "Rules of a torch extension" not in instructions("profiler", languages=both)


@pytest.mark.parametrize(
    ("source", "languages", "words"),
    [
        (FUSED, "cuda", "this run takes only kernels in CUDA"),
        (FUSED, "cuda,torch", ""),
        ("__global__ void f();", "cuda,torch", ""),
        (f"{FUSED}PYBIND11_MODULE(a, b) {{}}", "cuda,torch", "leave out PYBIND11_MODULE"),
        (f"{HEAD}torch::Tensor run(torch::Tensor x);", "cuda,torch", "does not define torch::Ten"),
    ],
)
def test_an_unusable_file_goes_back(module: Task, source: str, languages: str, words: str) -> None:
    wanted = Limits.model_validate({"languages": languages}).languages
    found = unusable_language(source, module, wanted)
    assert (found is None) == (not words) and words in (found or "")


def test_a_run_proposes_an_extension(module: Task, tmp_path: Path) -> None:
    kept = FUSED.replace(HEAD, HEAD + KEPT)
    findings = extension_findings(kept, module)
    assert findings
    case = module.demo[0][0]
    judge = FixedJudge(
        {
            BASELINE: on_case(timed(1.0, "tie"), case),
            kept: Refused(gate="guard", findings=findings),
            FUSED: on_case(timed(1.4, "accepted"), case),
        }
    )
    request = chat_request(
        module,
        tmp_path / "out",
        models=open_models("scripted", module, languages=("cuda", "torch")),
        options=run_options(languages="cuda,torch", rounds=1),
    )
    path = run_request(request, judge=judge).transcript
    assert not [one for one in read(path).records if isinstance(one.event, RejectedReply)]
    texts = {one.role: one for one in prompts(read(path))}
    assert (
        "torch::Tensor forward(torch::Tensor x, torch::Tensor linear_weight" in texts["coder"].user
    )
    assert "a variable outside functions" in texts["fixer"].user
    rows = load_transcript(path).evaluations
    assert [row.language for row in rows][1:] == ["torch"] * (len(rows) - 1)
    assert (path.parent / "best.cu").read_text() == FUSED
    assert not (path.parent / "best.built.cu").exists() and not (path.parent / "best").exists()


def test_only_module_tasks_take_extensions(module: Task, task: Task) -> None:
    options = RunOptions(models="scripted", languages=("cuda", "torch"))
    with pytest.raises(BadInput, match="is not made from a PyTorch module"):
        request_for(options, SessionOptions(task=str(task.folder), device="virtual"))


def test_the_virtual_gpu_says_where_it_is_judged(module: Task) -> None:
    with Judge(module, virtual_device("h200"), trust=True) as judge:
        found = judge.evaluate(FUSED)
        assert isinstance(found.outcome, Unsupported) and found.outcome.what == ON_VIRTUAL
        assert "weaker evidence than a launch plan" in found.trust
        assert judge.build(FUSED).result.kind == "built"
        refused = judge.check(FUSED.replace(HEAD, HEAD + KEPT)).outcome
    assert isinstance(refused, Refused) and refused.gate == "guard"


def test_what_needs_a_launcher_says_so(module: Task) -> None:
    with pytest.raises(BadInput, match="a torch extension, which has no launcher"):
        cuda_source(FUSED, module, "sm_90")
    with pytest.raises(BadInput, match="constants are not tuned"):
        read_space(FUSED)
