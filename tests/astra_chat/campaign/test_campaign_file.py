"""A campaign file is refused in one line that names the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.campaign.campaign_file import read_campaign
from astra_chat.campaign.plan import plans_of, run_arguments
from astra_vgpu.ground.errors import BadInput

GOOD = 'schema = 1\ntasks = ["silu_and_mul"]\nmodels = ["scripted"]\n'
TOO_MANY = 'repeats = 1000\nstarts = ["sglang", "paper"]\ngpus = ["a", "b", "c", "d", "e", "f"]\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "c.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + "repeat = 3", "did you mean repeats?"),
        (GOOD + "qqqq = 3", "no key 'qqqq': use schema, tasks"),
        (GOOD + "[budget]\ntoken = 3", "no key 'budget.token': use tokens"),
        (GOOD + "strategies = []", "'strategies' is empty, so there is nothing to run"),
        ('schema = 1\ntasks = []\nmodels = ["scripted"]', "'tasks' is empty"),
        ('schema = 1\nmodels = ["scripted"]', "'tasks' is missing"),
        (GOOD.replace("= 1", "= 2"), "schema: it must be 1"),
        (GOOD + "repeats = 0", "repeats: it should be greater than or equal to 1"),
        (GOOD + 'strategies = ["best", "best"]', "'best' is given twice"),
        (GOOD + 'strategies = ["bets"]', "use best, paper, beam:K"),
        (GOOD + 'strategies = ["best", "tree"]', "set run_budget.evaluations"),
        (GOOD.replace("silu_and_mul", "nothing"), "nothing"),
        (GOOD.replace("scripted", "replay:{tusk}.jsonl"), "braces may contain only {task}"),
        (GOOD + 'seed = "xyz"', "'xyz' is not a seed"),
        (GOOD + "rounds = 0", "--rounds 0"),
        (GOOD + 'judge = "elsewhere"', "--judge elsewhere"),
        (GOOD + 'judge = "ssh:-oProxyCommand"', "give a host, as in ssh:user@host"),
        (GOOD + TOO_MANY, "it defines 12,000 runs; at most 10,000 are allowed"),
        ("schema = ", "Invalid value"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_campaign(written(tmp_path, text))
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("judge", ["local", "detached", "ssh:ada@box", "ray", "ray:10.0.0.1:6379"])
def test_each_run_gets_the_judge_as_it_is_written(tmp_path: Path, judge: str) -> None:
    file = read_campaign(written(tmp_path, f'{GOOD}judge = "{judge}"\n'))
    words = run_arguments(plans_of(file)[0], file, tmp_path, file.run_budget, trust=False)
    assert f"--judge={judge}" in words


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read"):
        read_campaign(tmp_path / "c.toml")


def test_all_combinations_have_names_of_their_own(tmp_path: Path) -> None:
    more = (
        'strategies = ["best", "beam:2"]\nstarts = ["sglang", "paper"]\ngpus = ["h200", "h100"]\n'
        "repeats = 3\n[run_budget]\nevaluations = 8\n"
    )
    file = read_campaign(written(tmp_path, GOOD + more))
    plans = plans_of(file)
    assert len(plans) == file.count == 24 == len({plan.id for plan in plans})
    assert [plan.repeat for plan in plans] == sorted(plan.repeat for plan in plans)
    assert len({plan.arm for plan in plans}) == 8


def test_a_runs_name_depends_on_what_it_is_and_not_on_budgets(tmp_path: Path) -> None:
    def names(text: str) -> list[str]:
        return [plan.id for plan in plans_of(read_campaign(written(tmp_path, GOOD + text)))]

    assert names("") == names("at_once = 7\n[budget]\ntokens = 5\n[run_budget]\ntokens = 3\n")
    assert set(names("")) < set(names("repeats = 2"))
    assert names("") != names("rounds = 2") and names("") != names('seed = "1"')
