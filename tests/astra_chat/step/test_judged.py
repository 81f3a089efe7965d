"""What samples of a step say: verdicts of variants and operators, and which samples are refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from astra_chat.cli.main import app
from astra_chat.package.kernel_names import canonical
from astra_chat.package.proof import read_proof
from astra_chat.step.intervals import error_ratio, median_interval
from astra_chat.step.judged import StepReport, judged
from astra_chat.step.page import page, words
from astra_chat.step.samples import samples_of
from astra_vgpu.ground.errors import AstraError, BadInput

PACKAGED = {
    name: {"candidate": f"{n:012x}", "kernels": [f"{name}_kernel<true>(int)"]}
    for n, name in enumerate(("faster", "slower", "neither", "coarse", "uncalled", "refused"))
}
SPEEDUPS = {
    "without": 1.0,
    "again": 1.001,
    "all": 1.04,
    "only faster": 1.05,
    "only slower": 0.97,
    "only neither": 1.0005,
    "only coarse": 1.02,
    "only refused": 1.0,
}
ROUNDS, ROWS = 25, 90


def batch(variant: str, requests: int) -> dict[str, Any]:
    """A step of 1000 us; rounds scatter by 0.1 %, most of it common to all variants of a round."""
    common, own = random.Random(requests), random.Random(f"{variant} {requests}")
    errors = random.Random(f"rows {requests}")
    size = {"only coarse": 1.4, "all": 1.02}.get(variant, 1.0) ** 2
    names = list(PACKAGED) if variant == "all" else [variant.removeprefix("only ")]
    seen = {f"void {n}_kernel<(bool)1>(int)": (6, 9.0) for n in names if n in PACKAGED}
    seen.pop("void refused_kernel<(bool)1>(int)", None)
    seen.pop("void uncalled_kernel<(bool)1>(int)", None)
    return {
        "blocks_us": [
            1000 / SPEEDUPS[variant] * common.gauss(1, 1e-3) * own.gauss(1, 2e-4)
            for _ in range(ROUNDS)
        ],
        "kernels": {"gemm": (12, 900.0), **seen},
        "errors": [size * errors.uniform(0.5, 1.5) * 1e-4 for _ in range(ROWS)],
        "norms": [1.0] * ROWS,
        "apart": 0.1,
        "same": 89,
        "rows": ROWS,
    }


def samples(**changes: Any) -> dict[str, Any]:
    def winners(variant: str) -> list[str]:
        called = [name for name in PACKAGED if name != "uncalled"]
        return called if variant == "all" else [n for n in called if variant == f"only {n}"]

    return {
        "schema": "astra-chat/step-samples/1",
        "request": {
            "engine": "sglang",
            "model": "moe6",
            "batches": [1, 8],
            "rounds": ROUNDS,
            "steps": 8,
            "prompt_tokens": 128,
            "out": "samples.json",
        },
        "engine": "sglang",
        "version": "0.5.17",
        "torch": "2.11.0",
        "gpu": "NVIDIA H100 80GB HBM3",
        "arch": "sm_90",
        "ranks": 1,
        "hooks": ["faster: module:function: hooked"],
        "packaged": PACKAGED,
        "facts": {"norm": "FlashInfer, CUDA source"},
        "called": ["faster", "slower", "neither", "coarse", "refused"],
        "variants": {
            name: {
                "winners": winners(name),
                "counts": [
                    *([one, "took", "", 18] for one in winners(name)),
                    *(["refused", "fell back", "no rows", 6] for _ in winners(name)[-1:]),
                ],
                "batches": {str(one): batch(name, one) for one in (1, 8)},
            }
            for name in SPEEDUPS
        },
        **changes,
    }


@pytest.fixture(scope="module")
def report() -> StepReport:
    return judged([samples_of(samples(), "samples")])


def test_each_winner_gets_a_verdict(report: StepReport) -> None:
    findings = {name: one.finding for name, one in report.operators.items()}
    assert findings == {
        "faster": "gains",
        "slower": "loses",
        "neither": "no difference",
        "coarse": "less exact",
        "uncalled": "not engaged",
        "refused": "not engaged",
    }
    assert {n for n, one in report.operators.items() if one.ships} == {"faster", "neither"}
    assert report.operators["refused"].why == "the original ran: 12x no rows"
    assert report.operators["uncalled"].why == "the measured steps do not call this operator"
    assert "moe6 at 1: 0.97" in report.operators["slower"].why
    assert report.operators["coarse"].why == "error at moe6 at 1: 1.400x, moe6 at 8: 1.400x"


def test_a_variant_gains_outside_of_what_a_second_capture_differs_by(report: StepReport) -> None:
    (model,) = report.models
    verdicts = {v.name: {t.verdict for t in v.times} for v in model.variants}
    assert verdicts["all"] == {"gains"} and verdicts["again"] == {"no difference"}
    noisy = samples()
    for one in noisy["variants"]["again"]["batches"].values():
        one["blocks_us"] = [us * 0.93 for us in one["blocks_us"]]
    (again,) = judged([samples_of(noisy, "noisy")]).models
    assert {t.verdict for v in again.variants for t in v.times} == {"no difference"}


def test_kernel_times_promise_a_speedup(report: StepReport) -> None:
    (model,) = report.models
    times = next(v for v in model.variants if v.name == "only faster").times[0]
    assert times.launches == 18 and times.seen == {"faster": 6}
    assert times.kernels_speedup == pytest.approx(900 / 909) and times.share is None


def test_a_step_gains_a_share_of_what_kernel_times_promise() -> None:
    """The profiles without winners differ by 1 %: no smaller promise counts."""
    made = samples()
    for variant, us in (("without", 1000.0), ("again", 990.0), ("only faster", 900.0)):
        for one in made["variants"][variant]["batches"].values():
            one["kernels"]["gemm"] = (12, us)
    found = judged([samples_of(made, "made")])
    shares = {v.name: [t.share for t in v.times] for v in found.models[0].variants}
    assert shares["again"] == shares["without"] == [None, None]
    assert shares["only faster"] == pytest.approx([0.05 / (1000 / 909 - 1)] * 2, rel=0.02)
    assert found.operators["faster"].share == pytest.approx(0.51, abs=0.02)
    text = list(words(found))
    assert any(line.endswith("51 % of the gain predicted from kernel times") for line in text)
    assert found.share == pytest.approx(0.59, abs=0.02)
    assert text[-1] == "all winners together: 59 % of the gain that kernel times predict"
    assert "<td>51 %</td>" in page(found)


def test_the_report_is_a_proof_of_what_the_graphs_contain(
    report: StepReport, tmp_path: Path
) -> None:
    path = tmp_path / "step.json"
    path.write_text(report.model_dump_json())
    proof = read_proof(path)
    assert not proof.shows("slower", PACKAGED["slower"]["candidate"])  # type: ignore[arg-type]
    assert proof.operators["slower"].off.startswith("loses: moe6 at 1: 0.97")
    assert proof.graphs == 2
    assert proof.shows("faster", PACKAGED["faster"]["candidate"])  # type: ignore[arg-type]
    assert proof.operators["faster"].step.startswith("gains: moe6 at 1: 1.05")
    assert proof.operators["faster"].kernels == {"void faster_kernel<(bool)1>(int)": 12}
    assert proof.operators["refused"].fell_back == {"no rows": 6}


def partly(calls: dict[str, Any]) -> dict[str, Any]:
    """Samples in which one winner loses at 1 request and gains at 8; `calls` are its calls."""
    found = samples()
    variant = found["variants"]["only slower"]
    plain = found["variants"]["without"]["batches"]["8"]["blocks_us"]
    variant["batches"]["8"]["blocks_us"] = [us / 1.03 for us in plain]
    variant["calls"] = {batch: {"slower": [call]} for batch, call in calls.items()}
    return found


ONE, EIGHT = ({"dtype": "bfloat16", "dims": {"tokens": n, "hidden": 4096}} for n in (1, 8))


def test_a_winner_that_loses_in_some_steps_ships_with_the_others(tmp_path: Path) -> None:
    """Where its calls tell the steps apart: those of steps that lose are left to the original."""
    found = judged([samples_of(partly({"1": ONE, "8": EIGHT}), "x")])
    one = found.operators["slower"]
    assert one.finding == "gains in part" and one.ships
    assert one.why.startswith("moe6 at 1: 0.97") and "it gains: moe6 at 8: 1.03" in one.why
    assert [(row.dims["tokens"], row.low < 1) for row in one.steps] == [(1, True), (8, False)]
    path = tmp_path / "step.json"
    path.write_text(found.model_dump_json())
    proof = read_proof(path)
    assert proof.operators["slower"].steps == one.steps and proof.operators["faster"].steps == ()
    assert proof.shows("slower", PACKAGED["slower"]["candidate"])  # type: ignore[arg-type]


@pytest.mark.parametrize("calls", [{}, {"1": ONE}, {"1": ONE, "8": ONE}])
def test_a_winner_whose_calls_do_not_tell_its_steps_apart_is_left_out(
    calls: dict[str, Any],
) -> None:
    one = judged([samples_of(partly(calls), "x")]).operators["slower"]
    assert one.finding == "loses" and not one.ships and one.steps == ()


def test_without_float32_nothing_is_said_about_errors() -> None:
    """Neither where there is none, nor where the baseline itself is far from it."""
    far, none = samples(), samples(no_reference="a callable")
    for variant in far["variants"].values():
        for one in variant["batches"].values():
            one["norms"] = [1e-4] * ROWS
    for variant in none["variants"].values():
        for one in variant["batches"].values():
            one["errors"], one["norms"] = [], []
    for given in (far, none):
        (model,) = judged([samples_of(given, "x")]).models
        assert all(t.parity.over_without is None for v in model.variants for t in v.times)


def test_a_variant_that_could_not_be_captured_is_named() -> None:
    broken = samples()
    broken["variants"]["only faster"] |= {
        "error": "RuntimeError: misaligned address",
        "batches": {},
    }
    found = judged([samples_of(broken, "x")])
    assert found.operators["faster"].finding == "not engaged"
    assert found.operators["faster"].why == "not measured: RuntimeError: misaligned address"


def test_an_interval_covers_the_median_that_values_are_drawn_from() -> None:
    draws = random.Random(7)
    covered = 0
    for _ in range(400):
        found = median_interval([draws.gauss(1, 0.01) for _ in range(15)])
        covered += found.low <= 1 <= found.high
    assert 0.93 < covered / 400 < 1
    assert median_interval([3.0, 1.0, 2.0]).words == "2.0000 (1.0000 to 3.0000)"


def test_errors_are_compared_row_by_row() -> None:
    without = [1.0, 4.0, 9.0] * 30
    assert error_ratio(without, without, 0).words == "1.0000 (1.0000 to 1.0000)"
    doubled = error_ratio([4 * one for one in without], without, 0)
    assert doubled.ratio == pytest.approx(2) and doubled.low == pytest.approx(2)
    assert error_ratio([0.0], [0.0], 0).ratio == 1


def test_two_demanglers_write_the_same_kernel() -> None:
    assert canonical("void k<(bool)1, (int)8>(long*)") == canonical("void k<true, 8>(long *)")
    assert canonical("void k<8u>(int)") == canonical("void k<(unsigned int)8>(int)")
    assert canonical("void k<(bool)1>(int)") != canonical("void k<(bool)0>(int)")


def step(*words: object) -> Result:
    return CliRunner().invoke(app, ["step", *(str(word) for word in words)])


def test_saved_samples_are_judged_again(tmp_path: Path) -> None:
    path, out, html = (tmp_path / name for name in ("moe6.json", "step.json", "step.html"))
    path.write_text(json.dumps(samples()))
    result = step(path, "-o", out, "--html", html)
    assert result.exit_code == 1, "a winner loses"
    assert "slower: loses: moe6 at 1: 0.97" in result.output
    assert StepReport.model_validate_json(out.read_text()).operators["faster"].ships
    page = html.read_text()
    assert "faster alone" in page and "same step, captured again" in page and "<script" not in page


def corrupt(**changes: Any) -> str:
    return json.dumps(samples(**changes))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "contains no samples of a step"),
        ('{"schema": "other"}', "schema"),
        (corrupt(variants={}), "with all of them are required"),
        (corrupt(ranks="many"), "ranks"),
    ],
)
def test_what_are_no_samples_is_refused(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    result = step(path)
    assert isinstance(result.exception, BadInput) and said in str(result.exception)


def test_rounds_have_to_be_paired(tmp_path: Path) -> None:
    torn = samples()
    torn["variants"]["all"]["batches"]["8"]["blocks_us"].pop()
    with pytest.raises(BadInput, match="all at 8 requests has no counterpart"):
        samples_of(torn, "torn")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none"], "is not a plugin package"),
        (["none", "--call", "step"], "MODULE:FUNCTION"),
        (["none", "--call", "a:b", "--model", "moe6"], "replaces --model"),
        (["none", "--model", "huge"], "neither dense8 nor moe6 nor a folder"),
        (["none", "moe6.json"], "not both"),
        (["none.json"], "cannot read none.json"),
    ],
)
def test_a_request_that_cannot_be_measured_is_refused(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none").mkdir()
    (tmp_path / "moe6.json").write_text("{}")
    error = step(*words).exception
    assert isinstance(error, AstraError) and said in str(error)


def test_samples_of_two_packages_are_not_put_together(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text(json.dumps(samples()))
    second.write_text(corrupt(gpu="NVIDIA H200"))
    error = step(first, second).exception
    assert isinstance(error, BadInput) and "a different package, engine or GPU" in str(error)
