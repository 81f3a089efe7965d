"""Draws by their frequencies: honest ones pass, biased ones fail, false alarms are rare."""

from __future__ import annotations

import math

import numpy as np
import pytest

from astra_chat.tools.check.kinds import (
    FALSE_ALARM,
    LEAST_EXPECTED,
    NOMINAL,
    biased,
    judge_draws,
    log_tail,
)

DRAWS = 2**17


def zipf(vocabulary: int, power: float = 1.0) -> np.ndarray:
    """Probabilities that fall with the rank, as those of tokens do."""
    weights = (1.0 + np.arange(vocabulary)) ** -power
    return weights / weights.sum()


def drawn(table: np.ndarray, count: int, seed: int) -> np.ndarray:
    """`count` draws for each row of probabilities, flat."""
    rng = np.random.default_rng(seed)
    rows = [np.searchsorted(np.cumsum(p)[:-1], rng.random(count), "right") for p in table]
    return np.concatenate(rows)


@pytest.mark.parametrize("vocabulary", [2, 50, 1000, 32_000])
@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_honest_draws_pass_and_a_bias_of_2_percent_does_not(vocabulary: int, power: float) -> None:
    table = zipf(vocabulary, power)[None]
    for seed in range(3):
        honest = drawn(table, DRAWS, seed)
        assert judge_draws(honest, table.reshape(-1), vocabulary) is None
        if np.cumsum(table)[0] <= 0.5:
            moved = biased(honest, table, vocabulary, np.random.default_rng(seed))
            assert np.mean(moved != honest) == pytest.approx(0.02, rel=0.01)
            refusal = judge_draws(moved, table.reshape(-1), vocabulary)
            assert refusal is not None and "chi-square" in refusal.why


def test_one_symbol_that_is_favoured_is_named() -> None:
    table = zipf(500)[None]
    draws = drawn(table, DRAWS, 1)
    draws[np.random.default_rng(2).random(DRAWS) < 0.02] = 77
    refusal = judge_draws(draws, table.reshape(-1), 500)
    assert refusal is not None and "symbol 77 drawn" in refusal.why
    assert draws[refusal.place] == 77 and refusal.bad == np.sum(draws == 77)


def test_rows_have_probabilities_of_their_own() -> None:
    table = np.stack([zipf(40), zipf(40)[::-1], zipf(40, 0.0)])
    draws = drawn(table, DRAWS // 4, 5)
    assert judge_draws(draws, table.reshape(-1), 40) is None
    swapped = np.roll(draws.reshape(3, -1), 1, axis=0).reshape(-1)
    assert judge_draws(swapped, table.reshape(-1), 40) is not None


def test_a_draw_for_each_row() -> None:
    table = np.random.default_rng(3).dirichlet(np.ones(16), 20_000)
    draws = drawn(table, 1, 6)
    assert judge_draws(draws, table.reshape(-1), 16) is None
    greedy = table.argmax(axis=1)
    assert judge_draws(greedy, table.reshape(-1), 16) is not None


def test_draws_that_were_not_made_say_nothing() -> None:
    table = np.stack([zipf(40), zipf(40)[::-1], zipf(40, 0.0)])
    draws = drawn(table, DRAWS // 2, 5)
    made = np.random.default_rng(8).random(len(draws)) < 0.6
    made[DRAWS // 2 : DRAWS] &= np.random.default_rng(9).random(DRAWS // 2) < 0.1
    left = np.where(made, draws, -7)
    assert judge_draws(left, table.reshape(-1), 40, made) is None
    assert judge_draws(left, table.reshape(-1), 40, np.zeros(len(draws), np.bool_)) is None
    left[np.flatnonzero(made)[::40]] = 3
    refusal = judge_draws(left, table.reshape(-1), 40, made)
    assert refusal is not None and "symbol 3 drawn" in refusal.why and left[refusal.place] == 3
    left[np.flatnonzero(made)[50]] = 40
    refusal = judge_draws(left, table.reshape(-1), 40, made)
    assert refusal is not None and refusal.place == np.flatnonzero(made)[50]


def test_what_cannot_be_drawn() -> None:
    table = np.array([[0.5, 0.0, 0.5]])
    for symbol, why in ((1, "zero"), (3, "0 to 2"), (-1, "0 to 2")):
        refusal = judge_draws(np.array([0, 2, symbol, 2]), table.reshape(-1), 3)
        assert refusal is not None and refusal.place == 2 and why in refusal.why


@pytest.mark.parametrize("places", [slice(0, 3), slice(3, None, 7), slice(9, 12), slice(-1, None)])
def test_symbols_that_cannot_be_drawn_hide_no_bias(places: slice) -> None:
    """Alone they are no group: nothing is expected there."""
    table = zipf(12)
    table[places] = 0
    table /= table.sum()
    honest = drawn(table[None], DRAWS, 3)
    assert judge_draws(honest, table, 12) is None
    moved = biased(honest, table, 12, np.random.default_rng(1))
    likeliest = np.full(DRAWS, table.argmax())
    for draws in (moved, likeliest)[not (moved != honest).any() :]:
        refusal = judge_draws(draws, table, 12)
        assert refusal is not None and "nan" not in refusal.why


def test_few_draws_say_nothing() -> None:
    assert judge_draws(np.array([0, 0, 1]), zipf(10), 10) is None


@pytest.mark.parametrize("expected", [LEAST_EXPECTED, 3 * LEAST_EXPECTED, 30 * LEAST_EXPECTED])
@pytest.mark.parametrize("total", [6000, 100_000])
def test_the_false_alarm_of_two_symbols_is_summed_exactly(expected: float, total: int) -> None:
    """The least favourable case: one group that expects the fewest draws, and all others."""
    p = expected / total
    counts = np.arange(total + 1)
    statistic = (counts - expected) ** 2 / expected + (counts - expected) ** 2 / (total - expected)
    refused = [k for k in counts[statistic > 25] if log_tail(statistic[k], 1) < math.log(NOMINAL)]
    logs = [
        math.lgamma(total + 1)
        - math.lgamma(k + 1)
        - math.lgamma(total - k + 1)
        + k * math.log(p)
        + (total - k) * math.log1p(-p)
        for k in map(int, refused)
    ]
    assert sum(map(math.exp, logs)) < FALSE_ALARM / 2


def test_the_statistic_follows_chi_square_where_there_are_many_groups() -> None:
    """About 4 of 400 honest results lie beyond the quantile of 1 %."""
    table, beyond = zipf(2000)[None], 0
    for seed in range(400):
        counts = np.random.default_rng(seed).multinomial(20_000, table[0])
        kept = table[0] * 20_000 >= LEAST_EXPECTED
        got = np.append(counts[kept], counts[~kept].sum())
        wanted = np.append(table[0][kept], table[0][~kept].sum()) * 20_000
        tail = log_tail(float(((got - wanted) ** 2 / wanted).sum()), len(got) - 1)
        beyond += tail < math.log(0.01)
    assert 0 < beyond < 14
