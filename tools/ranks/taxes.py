"""What a kernel over several GPUs pays beside its own work: the three taxes, by the virtual model.

Terms after "Eliminating Multi-GPU Performance Taxes: A Systems Approach to Efficient Distributed
LLMs" (arXiv 2511.02168): bulk synchrony, data that leaves its place between producer and consumer,
and kernel launches. Constants are estimates, fitted by hand to the times of three kernels on two
H200s (docs/research/ranks.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.run.rank_messages import Counted
from astra_chat.tools.types import Metric
from astra_chat.tools.virtual_gpu.adapter import Estimate, second_launch_us
from astra_vgpu.ground.gpu_specs import GpuSpec

ROUND_US = 1.2
"""A signal's way to a peer and the peer's data back, once per wait; an estimate."""
LINK_BYTES_PER_S = 250e9
"""What stores or loads of a kernel reach over NVLink in one direction; an estimate."""
LINK_LATENCY_US = 0.8
"""How much longer a load over a link takes than one of this GPU's memory; an estimate."""


@dataclass(frozen=True)
class Taxes:
    """The taxes of one call, of the rank that pays most."""

    waits: int
    """How often a rank waits for its peers."""
    launches: int
    link_read_bytes: int
    link_written_bytes: int
    own_bytes: int
    private_bytes: int
    """Bytes of arguments that no peer reaches."""
    load_rounds: int
    """Loads of a warp that wait for each other; those over links are taken to be as many of them
    as bytes over links are of all bytes."""
    spec: GpuSpec

    @property
    def barriers_us(self) -> float:
        """Bulk synchrony: ranks wait for each other."""
        return self.waits * ROUND_US

    @property
    def links_us(self) -> float:
        """Locality: bytes over links, and loads over links that wait for each other."""
        moved = max(self.link_read_bytes, self.link_written_bytes) / LINK_BYTES_PER_S * 1e6
        read = self.link_read_bytes + self.own_bytes + self.private_bytes
        share = self.link_read_bytes / max(1, read)
        return moved + share * max(0, self.load_rounds - self.waits) * LINK_LATENCY_US

    @property
    def launches_us(self) -> float:
        """Launches after the first."""
        return max(0, self.launches - 1) * second_launch_us(self.spec)

    def metrics(self, total_us: float) -> tuple[Metric, ...]:
        """The taxes as metrics that a plan can name. `total_us`: the call's time."""
        paid = self.barriers_us + self.links_us + self.launches_us
        rows = (
            (m.TAX_BARRIERS, self.barriers_us, "us", "of the time: ranks wait for each other"),
            (m.TAX_LINKS, self.links_us, "us", "of the time: bytes and dependent loads over links"),
            (m.TAX_LAUNCHES, self.launches_us, "us", "of the time: launches after the first"),
            (m.TAX_SHARE, 100 * paid / total_us, "%", "of the time are taxes for several GPUs"),
            (m.RANK_WAITS, self.waits, "", "waits of a rank for its peers"),
            (
                m.LINK_BYTES,
                self.link_read_bytes + self.link_written_bytes,
                "B",
                "of its peers' memory that a rank reads or writes, counting each byte once",
            ),
            (m.OWN_SHARED_BYTES, self.own_bytes, "B", "of its own shared memory that a rank reads"),
        )
        return tuple(Metric(name=n, value=float(v), unit=u, words=w) for n, v, u, w in rows)

    @property
    def words(self) -> str:
        """The largest tax, in a sentence's part."""
        by_us = {
            f"{self.waits} waits for peers": self.barriers_us,
            "bytes and loads over links": self.links_us,
            f"{self.launches} launches": self.launches_us,
        }
        largest = max(by_us, key=lambda name: by_us[name])
        return f"the largest tax for several GPUs: {largest}, {by_us[largest]:.2f} us"


def taxes_of(
    counted: Sequence[Counted], *, waits: int, launches: int, private_bytes: int, spec: GpuSpec
) -> Taxes:
    """The taxes of one case from what each rank counted."""
    return Taxes(
        waits=waits,
        launches=launches,
        link_read_bytes=max(one.link_read_bytes for one in counted),
        link_written_bytes=max(one.link_written_bytes for one in counted),
        own_bytes=max(one.own_bytes for one in counted),
        private_bytes=private_bytes,
        load_rounds=max(one.report.estimated.load_rounds for one in counted),
        spec=spec,
    )


def taxed(call: Estimate, taxes: Taxes) -> Estimate:
    """One rank's estimate with what it pays for its peers; launches are in it already."""
    waits = call.split.get("waits", 0.0) + taxes.barriers_us
    moved = call.split.get("bytes", 0.0) + taxes.links_us
    more = taxes.barriers_us + taxes.links_us
    terms = {**call.terms, "latency": call.terms.get("latency", 0.0) + more}
    return replace(
        call,
        us=call.us + more,
        terms=terms,
        limiter=max(terms, key=lambda name: terms[name]),
        split={**call.split, "waits": waits, "bytes": moved},
        why=f"{taxes.words}; {call.why}",
    )
