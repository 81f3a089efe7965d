"""The command of a run: begun once, then resumed."""

from __future__ import annotations

from pathlib import Path

from astra_chat.campaign.campaign_file import CampaignFile
from astra_chat.campaign.plan import plans_of, run_arguments, transcript_of
from astra_chat.spending.budget import Budget, parse_budget

FILE = CampaignFile.model_validate(
    {
        "schema": 1,
        "tasks": ["silu_and_mul"],
        "models": ["replay:{task}-{repeat}.jsonl"],
        "gpus": ["h100"],
        "devices": ["virtual"],
        "seed": "ab",
        "repeats": 2,
        "mutants": 0,
    }
)


def test_a_run_is_begun_in_its_folder_and_resumed_from_its_transcript(tmp_path: Path) -> None:
    first, second = plans_of(FILE)
    budget = parse_budget("tokens=9")
    words = run_arguments(second, FILE, tmp_path, budget, trust=True)
    path = transcript_of(tmp_path, second)
    assert words[:2] == ["run", "silu_and_mul"] and "--trust" in words
    assert {
        "--models=replay:silu_and_mul-2.jsonl",
        "--budget=tokens=9",
        "--device=virtual",
        "--gpu=h100",
        f"--out={path.parent}",
        "--mutants=0",
        "--no-wait",
    } <= set(words)
    path.parent.mkdir(parents=True)
    path.write_text("x\n")
    again = run_arguments(second, FILE, tmp_path, Budget.model_validate({}), trust=False)
    assert f"--resume={path}" in again and "--budget=none" in again
    assert not any(word.startswith(("--out", "--device", "--gpu", "--trust")) for word in again)
    seeds = {w for one in (words, again) for w in one if w.startswith("--seed=")}
    others = run_arguments(first, FILE, tmp_path, budget, trust=False)
    assert len(seeds) == 1 and not seeds & set(others)
