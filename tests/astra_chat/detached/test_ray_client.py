"""The command behind --judge ray, as far as it goes without a cluster; with one: test_ray.py."""

from __future__ import annotations

import socket

import pytest

from astra_chat.detached.asking import wanted_of
from astra_chat.detached.carrying import Carrier, Destination
from astra_chat.detached.ray_client import gpus_of
from astra_chat.tools.system.devices import virtual_device
from astra_vgpu.ground.errors import MissingDependency

WANTED = wanted_of(virtual_device("h200"))


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"astra-gpu": "h200"}, "h200"),
        ({"ray.io/accelerator-type": "H200"}, "h200"),
        ({"astra-gpu": "virtual", "ray.io/accelerator-type": "A100"}, "virtual"),
        ({}, "unknown"),
        (None, "unknown"),
    ],
)
def test_a_nodes_gpus(labels: dict[str, str] | None, kind: str) -> None:
    assert gpus_of({"Labels": labels, "Resources": {"GPU": 2.0, "CPU": 8.0}}) == (kind, 2)
    assert gpus_of({"Labels": labels}) == (kind, 0)


def test_a_cluster_that_is_not_there_is_one_line() -> None:
    """Or Ray is not installed: either way the run does not begin."""
    with socket.socket() as held:  # bound, and not listening
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(MissingDependency) as failed:
            Carrier(Destination("ray", address), "virtual").require(WANTED)
    text = str(failed.value)
    assert text.startswith(f"--judge ray:{address}: no ") and "\n" not in text
    assert "pip install 'astra-chat[ray]'" in text or "Connection refused" in text
