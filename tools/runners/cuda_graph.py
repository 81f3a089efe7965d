"""The nodes of a captured CUDA graph: what host code launched, in the order of its stream."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver as cuda

from astra_chat.tools.runners.cuda_plans import call, parameter_layout

PROGRAMMATIC_EDGE = 1
"""CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC."""


@dataclass(frozen=True)
class Captured:
    """A node of the graph, behind the marker."""

    node: Any
    kind: str
    """The driver's name of its type, without the prefix."""
    programmatic: bool
    """Whether it may begin before the node ahead of it has ended."""


def chain(graph: Any) -> list[Captured]:
    """Returns the nodes behind the marker, in stream order. Raises RuntimeError where the graph is
    no chain."""
    nodes, count = call("cuGraphGetNodes", graph, 2**16)
    nodes = nodes[:count]
    sources, targets, edges, count = call("cuGraphGetEdges", graph, 2**16)
    ahead = {
        int(target): (int(source), edge)
        for source, target, edge in zip(
            sources[:count], targets[:count], edges[:count], strict=True
        )
    }
    after = {source: target for target, (source, _) in ahead.items()}
    by_handle = {int(node): node for node in nodes}
    roots = [handle for handle in by_handle if handle not in ahead]
    if len(roots) != 1 or len(after) != len(by_handle) - 1 or count != len(ahead):
        raise RuntimeError("its nodes do not form a single sequence")
    handle, found = roots[0], list[Captured]()
    while (handle := after.get(handle, 0)) != 0:
        node, edge = by_handle[handle], ahead[handle][1]
        kind = call("cuGraphNodeGetType", node).name.removeprefix("CU_GRAPH_NODE_TYPE_")
        found.append(Captured(node, kind, int(edge.type) == PROGRAMMATIC_EDGE))
    return found


class NodeKernel:
    """The kernel of a node, whether the runtime launched it as a function or as a kernel."""

    def __init__(self, params: Any) -> None:
        self._params = params  # keeps the memory of the handle alive
        self._is_kernel = not int(params.func)
        self._handle = params.kern if self._is_kernel else params.func
        of = "cuKernelGetName" if self._is_kernel else "cuFuncGetName"
        self.name = call(of, self._handle).decode()

    def parameters(self, pointers: int) -> Iterator[tuple[int, int]]:
        """Offset and value of each byte of the parameters."""
        of = "cuKernelGetParamInfo" if self._is_kernel else "cuFuncGetParamInfo"
        for index, (offset, size) in enumerate(parameter_layout(of, self._handle)):
            start = ctypes.c_void_p.from_address(pointers + 8 * index).value or 0
            for at, value in enumerate(ctypes.string_at(start, size)):
                yield offset + at, value

    def attribute(self, of: Any) -> int:
        """An attribute of the function, as it is now."""
        if self._is_kernel:
            return int(call("cuKernelGetAttribute", of, self._handle, call("cuCtxGetDevice")))
        return int(call("cuFuncGetAttribute", of, self._handle))

    def cluster(self, given: tuple[int, int, int]) -> tuple[int, int, int]:
        """Returns the cluster of a launch with this attribute; where that has a 0, the one that the
        kernel was compiled with."""
        of = cuda.CUfunction_attribute
        return (
            given
            if all(given)
            else (
                self.attribute(of.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
                self.attribute(of.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
                self.attribute(of.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH),
            )
        )

    def variable(self, name: str) -> int:
        """Address of a module variable beside it."""
        if self._is_kernel:
            library = call("cuKernelGetLibrary", self._handle)
            return int(call("cuLibraryGetGlobal", library, name.encode())[0])
        module = call("cuFuncGetModule", self._handle)
        return int(call("cuModuleGetGlobal", module, name.encode())[0])


def launch_attributes(node: Any) -> tuple[tuple[int, int, int], bool]:
    """The node's cluster, zeros without one, and whether it is launched cooperatively."""
    ids = cuda.CUlaunchAttributeID
    # clusterDim lies in the value and, before cuda-bindings 13.5, does not keep it alive.
    value = call("cuGraphKernelNodeGetAttribute", node, ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    cluster = (value.clusterDim.x, value.clusterDim.y, value.clusterDim.z)
    value = call("cuGraphKernelNodeGetAttribute", node, ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
    return cluster, bool(value.cooperative)
