"""Nodes of a captured graph, as the driver's bindings hand them over."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import pytest

from astra_chat.tools.runners import cuda_graph


class Value:
    """An attribute's value as cuda-bindings made it before 13.5: `clusterDim` is a view."""

    def __init__(self, cooperative: int, *cluster: int) -> None:
        self.cooperative, self.cluster = cooperative, cluster

    @property
    def clusterDim(self) -> View:
        return View(weakref.ref(self))


@dataclass
class View:
    """Reads what lies there now, which is nothing of the value once that is gone."""

    of: weakref.ref[Value]

    def __getattr__(self, axis: str) -> int:
        value = self.of()
        return value.cluster["xyz".index(axis)] if value else 0


def test_the_attributes_of_a_launch_outlive_their_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(name: str, node: object, attribute: object) -> Value:
        assert name == "cuGraphKernelNodeGetAttribute" and node == "node"
        return Value(1, 4, 2, 1)

    monkeypatch.setattr(cuda_graph, "call", call)
    assert cuda_graph.launch_attributes("node") == ((4, 2, 1), True)


def test_a_cluster_that_a_kernel_was_compiled_with_is_its_launchs() -> None:
    compiled = {
        "REQUIRED_CLUSTER_WIDTH": 2,
        "REQUIRED_CLUSTER_HEIGHT": 1,
        "REQUIRED_CLUSTER_DEPTH": 1,
    }

    class Compiled(cuda_graph.NodeKernel):
        def __init__(self) -> None:
            pass

        def attribute(self, of: Any) -> int:
            return compiled[of.name.removeprefix("CU_FUNC_ATTRIBUTE_")]

    assert Compiled().cluster((0, 0, 0)) == (2, 1, 1) == Compiled().cluster((2, 1, 1))
    assert Compiled().cluster((4, 1, 1)) == (4, 1, 1)
