"""A case's packed samples (timing/raw_samples.py) as the whole numbers that a clock counted.

A GPU tells a time as a float32 of milliseconds, a multiple of TICK_MS; a sample is microseconds a
launch: that time, less what is no launch, over the number of launches. The host's clock counts
nanoseconds. Such counts take a third of the bytes that the samples take as compressed text.

A column of counts is stored as bytes that compress: how far each lies from the column's middle, its
low bytes in one stream, its next bytes in another.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

TICK_MS = 32e-6
SIDES = ("baseline", "candidate", "control")
MOST_LAUNCHES = 4096
WARM_LAUNCHES = 20
"""In a graph of warm launches at most (runners/cuda_timing.py)."""
MOST_OFF, APART = 2**16, 24
"""What is taken off a replay is the median of an even number of times: in ticks it is at most
MOST_OFF, and the two times in the middle lie less than APART apart."""
Floats = NDArray[np.float64]
Scale = tuple[int, float]
"""Launches, and microseconds that were taken off."""


def counted(packed: bytes, streams: Streams) -> bytes | None:
    """JSON of what the streams do not take. None for text that `packed_again` would not restore
    to the last byte; nothing is put into the streams then."""
    try:
        text = zlib.decompress(base64.b64decode(packed, validate=True))
        raw = json.loads(text)
        trial = Streams()
        head = _counted(raw, trial)
        content = {name: bytes(part) for name, part in trial.content.items()}
        again = packed_again(head, Cursor(content, {}))
    except (ValueError, zlib.error, KeyError, TypeError, IndexError, OverflowError):
        return None
    if again != packed:
        return None
    for name, part in content.items():
        streams.content[name] += part
    return head


def packed_again(head: bytes, cursor: Cursor) -> bytes:
    """What `counted` was given. The bytes are the same where zlib is that of zlib.net, which
    wrote all samples; another (zlib-ng) packs the same text otherwise. Raises ValueError."""
    found = json.loads(head)
    blocks, warm = _blocks(found, cursor), _warm(found, cursor)
    events = [cursor.take("events", column).clip(0) for column in found["events"]]
    raw = {
        "blocks": blocks,
        "warm": warm,
        "baseline_event_us": grid(events[0]).tolist(),
        "candidate_event_us": grid(events[1]).tolist(),
        **found["rest"],
    }
    return base64.b64encode(zlib.compress(_text(raw), 9))


def grid(ticks: Whole) -> Floats:
    """Microseconds, with the rounding that a float32 of milliseconds has."""
    return (ticks * TICK_MS).astype(np.float32).astype(np.float64) * 1e3


def _text(raw: Any) -> bytes:
    return json.dumps(raw, separators=(",", ":")).encode()


def _counted(raw: dict[str, Any], streams: Streams) -> bytes:
    blocks, warm = raw["blocks"], raw["warm"]
    cold = [np.array([b[side] for b in blocks]).ravel() for side in SIDES]
    scale = _cold_scale(np.concatenate(cold), raw["spaced"])
    warmed = [np.array([w[f"{side}_us"] for w in warm]) for side in SIDES[:2]]
    warm_scales = [_scale(one, _few(scale)) for one in warmed]
    events = [np.array(raw[f"{side}_event_us"]) for side in SIDES[:2]]
    parts = ("blocks", "warm", "baseline_event_us", "candidate_event_us")
    head = {
        "clock": [[int(b["candidate_first"]), *b["clock"].values()] for b in blocks],
        "keys": list(blocks[0]["clock"]),
        "spent": _spent(np.array([b["spent_s"] for b in blocks]), streams),
        "scales": [scale, *warm_scales],
        "cold": [_samples(streams, "cold", one, scale) for one in cold],
        "warm": [_samples(streams, "warm", *one) for one in zip(warmed, warm_scales, strict=True)],
        "events": [streams.put("events", _ticks(one, (1, 0.0))) for one in events],
        "rest": {key: value for key, value in raw.items() if key not in parts},
    }
    return _text(head)


def _ticks(values: Floats, scale: Scale) -> Whole:
    launches, off = scale
    return np.rint((values * launches + off) / (TICK_MS * 1e3)).astype(np.int64)


def _times(ticks: Whole, scale: Scale) -> Floats:
    launches, off = scale
    return (grid(ticks) - off) / launches


def _samples(streams: Streams, kind: str, values: Floats, scale: Scale | None) -> list[Any]:
    return streams.put(kind, _ticks(values, scale)) if scale else values.tolist()


def _restored(cursor: Cursor, kind: str, kept: list[Any], scale: Scale | None) -> list[float]:
    return _times(cursor.take(kind, kept), scale).tolist() if scale else kept


def _cold_scale(values: Floats, spaced: bool) -> Scale | None:
    if spaced:
        return None  # too many launches for a search of what was taken off; such cases are few
    return next((s for n in range(1, MOST_LAUNCHES) if _fits(values, s := (n, 0.0))), None)


def _few(scale: Scale | None) -> Iterable[int]:
    """Numbers of warm launches, the likeliest first: all, where fewer than the most are cold."""
    first = min(WARM_LAUNCHES, int(scale[0])) if scale else WARM_LAUNCHES
    return (first, *(n for n in range(WARM_LAUNCHES, 0, -1) if n != first))


def _fits(values: Floats, scale: Scale) -> bool:
    return all(
        np.array_equal(_times(_ticks(some, scale), scale), some) for some in (values[:1], values)
    )


def _scale(values: Floats, launches: Iterable[int]) -> Scale | None:
    """What makes ticks of all values; None where nothing does."""
    for number in launches:
        left = _offs()
        for value in values:
            times = grid(np.rint((value * number + left) / (TICK_MS * 1e3)).astype(np.int64))
            left = left[(times - left) / number == value]
        if len(left):
            return number, float(left[0])
    return None


@cache
def _offs() -> Floats:
    """All that may have been taken off, once each."""
    first, apart = np.meshgrid(np.arange(MOST_OFF), np.arange(APART), indexing="ij")
    return np.unique((grid(first.ravel()) + grid((first + apart).ravel())) / 2)


def _spent(values: Floats, streams: Streams) -> list[Any]:
    """Seconds as nanoseconds since the block before, and what the host's float adds to them, in
    units of its last place."""
    exponent = next(e for e in range(20, 64) if _whole(np.ldexp(values, e)))
    nanoseconds = np.rint(values * 1e9).astype(np.int64)
    rest = np.ldexp(values, exponent).astype(np.int64) - _units(nanoseconds, exponent)
    steps = np.diff(nanoseconds, prepend=0)
    return [exponent, streams.put("spent", steps), streams.put("rest", rest)]


def _whole(values: Floats) -> bool:
    return bool(np.all(values == np.rint(values)))


def _units(nanoseconds: Whole, exponent: int) -> Whole:
    return np.rint(np.ldexp(nanoseconds / 1e9, exponent)).astype(np.int64)


def _blocks(found: dict[str, Any], cursor: Cursor) -> list[dict[str, Any]]:
    exponent, steps, rest = found["spent"]
    nanoseconds = np.cumsum(cursor.take("spent", steps))
    units = _units(nanoseconds, exponent) + cursor.take("rest", rest)
    spent = [math.ldexp(unit, -exponent) for unit in units.tolist()]
    scale = found["scales"][0]
    cold = [_restored(cursor, "cold", kept, scale) for kept in found["cold"]]
    return [
        {
            "candidate_first": bool(clock[0]),
            **{side: cold[n][2 * i : 2 * i + 2] for n, side in enumerate(SIDES)},
            "spent_s": spent[i],
            "clock": dict(zip(found["keys"], clock[1:], strict=True)),
        }
        for i, clock in enumerate(found["clock"])
    ]


def _warm(found: dict[str, Any], cursor: Cursor) -> list[dict[str, float]]:
    kept = zip(found["warm"], found["scales"][1:], strict=True)
    both = [_restored(cursor, "warm", one, scale) for one, scale in kept]
    return [{"baseline_us": b, "candidate_us": c} for b, c in zip(*both, strict=True)]


MOST_VALUES = 2**22
"""Values of one member, at most: an archive may come from anybody. A run has some 50,000."""
Whole = NDArray[np.int64]
Column = list[int]
"""Its length, its middle, and how many streams it takes."""


@dataclass
class Streams:
    """Bytes of one kind one after another, by name."""

    content: dict[str, bytearray] = field(default_factory=lambda: defaultdict(bytearray))

    def put(self, name: str, values: Whole) -> Column:
        """Append a column; the result is what `Cursor.take` needs to find it again."""
        middle = int(np.median(values)) if len(values) else 0
        away = values - middle
        folded = np.where(away >= 0, 2 * away, -2 * away - 1)
        planes = (int(folded.max()).bit_length() + 7) // 8 if len(values) else 0
        for plane in range(planes):
            low = (folded >> 8 * plane) & 255
            self.content[f"{name}.{plane}"] += low.astype(np.uint8).tobytes()
        return [len(values), middle, planes]

    def ends(self) -> dict[str, int]:
        """Where the next byte of each goes."""
        return {name: len(content) for name, content in self.content.items()}


@dataclass
class Cursor:
    """Places in streams, from which one member's bytes are taken in the order of writing."""

    content: dict[str, bytes]
    places: dict[str, int]
    left: int = MOST_VALUES

    def bytes(self, name: str, count: int) -> bytes:
        """Raises ValueError where the stream has fewer."""
        start = self.places.get(name, 0)
        found = self.content.get(name, b"")[start : start + count]
        if start < 0 or len(found) < count:
            raise ValueError(f"stream {name} is too short")
        self.places[name] = start + count
        return found

    def take(self, name: str, column: Column) -> Whole:
        """What `Streams.put` was given. Raises ValueError."""
        count, middle, planes = column
        if not 0 <= planes <= 7:
            raise ValueError(f"{planes} streams of a column")
        if not 0 <= count <= self.left:
            raise ValueError(f"{count} values in a column")
        self.left -= count
        folded = np.zeros(count, np.int64)
        for plane in range(planes):
            part = np.frombuffer(self.bytes(f"{name}.{plane}", count), np.uint8)
            folded |= part.astype(np.int64) << 8 * plane
        away = np.where(folded % 2, -(folded + 1) // 2, folded // 2)
        return away + middle
