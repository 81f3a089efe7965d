"""Prediction interval of the ratio of two estimates, and what the judge's clock adds to a launch.

Split conformal prediction with a normalised score (Lei, G'Sell, Rinaldo, Tibshirani, Wasserman,
"Distribution-Free Predictive Inference for Regression", JASA 2018, section 5.2; Papadopoulos,
Gammerman, Vovk 2008): |ln(estimated ratio / measured ratio)| over a scale that grows with how
unlike the two kernels are, since what the model gets wrong of both alike cancels out. SPREAD is the
90 % quantile of that score. Kernels of one set are alike in what the model misses, and a user's are
of none of them, so it is the largest of the six sets' quantiles, not that of all pairs together.

The constants are fitted to recorded times by `lab/virtual_gpu/calibration/intervals.py`;
the coverage on kernels that had no part in it is in docs/research/estimate.md.
"""

from __future__ import annotations

import math
from dataclasses import replace

from astra_vgpu.model.estimate import Estimate

COVERAGE = 0.90
"""Share of the measured ratios that lie inside the interval."""
SPREAD = 0.67
"""Half width, as a logarithm, over the scale."""
ALIKE = 0.06
"""Scale of two kernels that do the same."""
SHARED = 0.7
"""Share of the error's variance that all cases of two kernels have in common: the correlation of
errors between shapes of the same two kernels, again of the worst set."""
JUDGED_LAUNCH_US = 0.42
"""What the judge measures for a launch beyond back-to-back replays, to which the model is fitted:
each of its launches has buffers of its own, and a kernel of its CUDA graphs begins later."""


def judged(
    call: Estimate, launches: int, copies_us: float = 0.0, launch_us: float = JUDGED_LAUNCH_US
) -> Estimate:
    """The estimate of a call as the judge would measure it; `copies_us`: of memsets and copies."""
    more = launches * launch_us + copies_us
    split = {**call.split, "fixed": call.split.get("fixed", 0.0) + more} if call.split else {}
    return replace(call, us=call.us + more, split=split)


def unlikeness(one: Estimate, other: Estimate) -> float:
    """How differently two calls spend their time: 0 for the same, about 1 for other algorithms.

    The sum over units of the difference in time, as a share of the slower call's; and the share of
    the store traffic that one has and the other has not, whose time the model knows least.
    """
    units = one.terms.keys() | other.terms.keys()
    moved_us = sum(abs(one.terms.get(u, 0.0) - other.terms.get(u, 0.0)) for u in units)
    fewer, more = sorted((one.store_packets, other.store_packets))
    return moved_us / max(one.us, other.us) + (1 - fewer / more if more else 0.0)


def scale_of(unlike: float) -> float:
    """Scale of a ratio's error, as a logarithm: grows with unlikeness, but hardly beyond 1."""
    return ALIKE + unlike / (1 + unlike)


def log_half_width(one: Estimate, other: Estimate) -> float:
    """Half width, as a logarithm, of the interval of the ratio of two estimated times."""
    return SPREAD * scale_of(unlikeness(one, other))


def ratio_interval(baseline: Estimate, candidate: Estimate) -> tuple[float, float, float]:
    """Low end, estimate and high end of the baseline's time over the candidate's."""
    ratio, factor = baseline.us / candidate.us, math.exp(log_half_width(baseline, candidate))
    return ratio / factor, ratio, ratio * factor
