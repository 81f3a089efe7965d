"""baseline.cu of a PyTorch module: its operators as plain CUDA kernels, and their launcher.

It says what a candidate computes and is what candidates are compared with on either device. It is
no kernel of PyTorch's: how fast eager or torch.compile is, it does not say.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from astra_chat.tools.cpp_heads import COLUMNS, head
from astra_chat.tools.new.module_kernels import (
    FOLDED,
    HELPERS,
    INLINE,
    THREADED,
    TYPES,
    VIEWS,
    Body,
    Node,
    NoPlainKernel,
    c_text,
    folded,
    product,
    threaded,
)
from astra_chat.tools.task.expressions import MAX_CHARACTERS
from astra_chat.tools.types import ITEM_BYTES

SCRATCH = "scratch"
THREADS = 256
LINE = 256
"""Bytes of which each place in the scratch memory is a multiple."""
CUT = {"split": "slice", "unbind": "select"}
"""What a part of a split is."""
EXTREMES = {"max": "amax", "min": "amin"}
"""The reductions whose results are the values of these operators."""
LAUNCHER_HELPERS = (
    f"unsigned blocks(int64_t threads) {{ return (threads + {THREADS - 1}) / {THREADS}; }}\n",
    f"int64_t in_lines(int64_t bytes) {{ return (bytes + {LINE - 1}) / {LINE} * {LINE}; }}\n",
)
ITEMS: dict[str, int] = {str(name): size for name, size in ITEM_BYTES.items()}


@dataclass(frozen=True)
class PlainKernels:
    """A module as kernels."""

    text: str
    scratch_bytes: str
    """Memory between the kernels, as an expression; "": none is needed."""
    flops: str


def plain_kernels(
    entry: str,
    nodes: Sequence[Mapping[str, Any]],
    reads: Sequence[str],
    results: Sequence[str],
    dims: Sequence[str],
) -> PlainKernels:
    """Text of baseline.cu, whose launcher takes what is read, the results, `scratch` if there is
    any, and the dims. Raises NoPlainKernel."""
    module = _Module(nodes, results, dims)
    kernels = [kernel for name in module.order for kernel in module.kernel(name)]
    scratch = module.scratch_bytes()
    given = parameters(reads, [*results, *([SCRATCH] if scratch else [])], dims)
    text = [
        "// Plain kernels of the module's operators: what a candidate computes, not what PyTorch",
        "// runs. They were written by astra-chat new.",
        "#include <cstdint>",
        "#include <cuda_bf16.h>",
        "#include <cuda_fp16.h>",
        "#include <cuda_runtime.h>",
        "",
        *(text for name, text in HELPERS.items() if f"{name}(" in " ".join(kernels)),
        *kernels,
        *LAUNCHER_HELPERS[: None if scratch else 1],
        *head(f'extern "C" cudaError_t {entry}', given, " {"),
        *module.launches(),
        "  return cudaGetLastError();",
        "}",
        "",
    ]
    return PlainKernels("\n".join(text), scratch, module.flops())


def parameters(reads: Sequence[str], written: Sequence[str], dims: Sequence[str]) -> list[str]:
    """Those of the launcher."""
    return [
        *(f"const void* {name}" for name in reads),
        *(f"void* {name}" for name in written),
        *(f"int64_t {name}" for name in dims),
        "cudaStream_t stream",
    ]


class _Module:
    """Which nodes are kept in memory, and where."""

    def __init__(
        self, nodes: Sequence[Mapping[str, Any]], results: Sequence[str], dims: Sequence[str]
    ) -> None:
        *others, output = nodes
        listed = [_node(n) for n in others if "shape" in n]
        whole = self._whole(others)
        self.nodes = {n.name: self._simple(whole(n)) for n in listed}
        self._dims = dims
        self._used: dict[str, list[str]] = {}
        self._results = dict(zip(results, (one["node"] for one in output["args"]), strict=True))
        needed = self._needed()
        self.nodes = {name: node for name, node in self.nodes.items() if name in needed}
        for node in self.nodes.values():
            if node.op not in (*INLINE, *FOLDED, *THREADED, "argument"):
                raise NoPlainKernel(node.op)
            if node.dtype not in TYPES:
                raise NoPlainKernel(f"{node.op} of {node.dtype}")
        self._memory: dict[str, str] = {
            n.name: n.args[0] for n in self.nodes.values() if n.op == "argument"
        }
        self._copies: list[tuple[str, str]] = []
        for result, name in self._results.items():
            if name in self._memory:
                self._copies.append((result, name))
            else:
                self._memory[name] = result
        self._scratch = [n for n in self._kept() if n not in self._memory]
        self._memory |= {name: f"{name}_kept" for name in self._scratch}
        self.order = [
            n.name for n in self.nodes.values() if n.name in self._memory and n.op != "argument"
        ]

    def _whole(self, nodes: Sequence[Mapping[str, Any]]) -> Any:
        """Reads the first result of an operator of several for the operator."""
        by_name = {n["name"]: n for n in nodes}

        def whole(node: Node) -> Node:
            if node.op != "getitem":
                return node
            source = by_name[node.args[0]["node"]]
            op = _base(source["op"])
            which, rest = node.args[1], source["args"][1:]
            if op in ("split", "unbind"):
                axis = rest[1] if op == "split" else rest[0]
                start = {"size": product([str(which), _text(rest[0])])} if op == "split" else which
                given = [source["args"][0], axis, start, None, 1]
                return Node(node.name, CUT[op], given, node.dtype, node.shape)
            if op == "var_mean":
                op = ("var", "mean")[which]
            elif which != 0:
                raise NoPlainKernel(f"result {which} of {op}")
            given = source["args"][:2] if op == "mean" else source["args"]
            if op in EXTREMES:
                op, given = EXTREMES[op], [given[0], [given[1]]]
            return Node(node.name, op, given, node.dtype, node.shape)

        return whole

    @staticmethod
    def _simple(node: Node) -> Node:
        """A product with 1, as in addmm, is what it multiplies; full_like reads nothing."""
        if node.op in EXTREMES:
            return Node(node.name, EXTREMES[node.op], node.args[:1], node.dtype, node.shape)
        if node.op == "full_like":
            return Node(node.name, "full", [None, node.args[1]], node.dtype, node.shape)
        if node.op == "mul" and node.args[1] == 1 and node.is_float:
            return Node(node.name, "expand", node.args[:1], node.dtype, node.shape)
        return node

    def _kept(self) -> list[str]:
        """Sums and products, and element-wise results that are read several times or in loops."""
        uses: Counter[str] = Counter()
        for node in self.nodes.values():
            for name in node.inputs if node.op not in VIEWS else ():
                source = self._behind_views(name)
                uses[source] += 2 if node.op in THREADED or node.op == "var" else 1
        return [
            n.name
            for n in self.nodes.values()
            if n.op in (*FOLDED, *THREADED)
            or (
                n.op not in ("argument", "full", "iota", "scalar_tensor", *VIEWS)
                and uses[n.name] > 1
            )
        ]

    def _behind_views(self, name: str) -> str:
        node = self.nodes[name]
        return self._behind_views(next(node.inputs)) if node.op in VIEWS else name

    def _needed(self) -> set[str]:
        """Nodes that a result needs, and the arguments."""
        left = [*self._results.values()]
        found = {n.name for n in self.nodes.values() if n.op == "argument"}
        while left:
            if (name := left.pop()) not in found:
                found.add(name)
                if name not in self.nodes:
                    raise NoPlainKernel(name)
                left += self.nodes[name].inputs
        return found

    def kernel(self, name: str) -> list[str]:
        """The kernel that computes a node."""
        node = self.nodes[name]
        memory = {n: m for n, m in self._memory.items() if n != name}
        body = Body(self.nodes, memory, {}, count())
        per_warp = node.op in FOLDED
        at = "blockIdx.x * int64_t(blockDim.x) + threadIdx.x"
        body.add(f"const int64_t I = {f'({at}) / 32' if per_warp else at};")
        body.add(f"if (I >= {c_text(node.count)}) return;")
        places = body.split("I", node.shape)
        if per_warp:
            value = folded(body, node, places)
        elif node.op in THREADED:
            value = threaded(body, node, places)
        else:
            value = body.computed(node, places)
        kind = TYPES[node.dtype]
        if kind != node.register:
            value = f"static_cast<{kind}>({value})"
        lane = "if (threadIdx.x % 32 == 0) " if per_warp else ""
        body.add(f"{lane}Result[I] = {value};")
        words = set(re.findall(r"\w+", " ".join(body.lines)))
        dims = [dim for dim in self._dims if dim in words]
        self._used[name] = [*map(self._read, body.used), self._written(name), *dims]
        given = [
            *(f"const {TYPES[self.nodes[n].dtype]}* {memory[n]}" for n in body.used),
            f"{kind}* Result",
            *(f"int64_t {dim}" for dim in dims),
        ]
        lines = head(f"__global__ void {_kernel_name(name)}", given, " {")
        return [*lines, *body.lines, "}\n"]

    def launches(self) -> list[str]:
        """Lines of the launcher."""
        lines = ["  char* Memory = static_cast<char*>(scratch);"] if self._scratch else []
        for name in self._scratch:
            kind = TYPES[self.nodes[name].dtype]
            lines.append(f"  {kind}* {self._memory[name]} = reinterpret_cast<{kind}*>(Memory);")
            lines.append(f"  Memory += in_lines({self._bytes(name)});")
        for name in self.order:
            node = self.nodes[name]
            threads = c_text(product([node.count, "32"]) if node.op in FOLDED else node.count)
            launch = f"<<<blocks({threads}), {THREADS}, 0, stream>>>"
            text = f"{_kernel_name(name)}{launch}({', '.join(self._used[name])});"
            lines += textwrap.wrap(
                text,
                COLUMNS,
                initial_indent="  ",
                subsequent_indent=" " * 6,
                break_long_words=False,
                break_on_hyphens=False,
            )
        for result, name in self._copies:
            lines += [
                f"  cudaMemcpyAsync({result}, {self._memory[name]}, {self._bytes(name)},",
                "                  cudaMemcpyDeviceToDevice, stream);",
            ]
        return lines

    def _bytes(self, name: str) -> str:
        node = self.nodes[name]
        return c_text(product([node.count, str(ITEMS[node.dtype])]))

    def _read(self, name: str) -> str:
        """What a launch passes for what its kernel reads."""
        if name in self._scratch:
            return self._memory[name]
        return f"static_cast<const {TYPES[self.nodes[name].dtype]}*>({self._memory[name]})"

    def _written(self, name: str) -> str:
        if name in self._scratch:
            return self._memory[name]
        return f"static_cast<{TYPES[self.nodes[name].dtype]}*>({self._memory[name]})"

    def scratch_bytes(self) -> str:
        """Bytes of what is kept between kernels. Raises NoPlainKernel where no contract can say
        it."""
        sizes: Counter[str] = Counter()
        for name in self._scratch:
            sizes[self.nodes[name].count] += ITEMS[self.nodes[name].dtype]
        if not sizes:
            return ""
        terms = [product([count_, str(size)]) for count_, size in sizes.items()]
        text = f"{' + '.join(terms)} + {LINE * len(self._scratch)}"
        if len(text) > MAX_CHARACTERS:
            raise NoPlainKernel("too many results between its operators")
        return text

    def flops(self) -> str:
        """Multiplications and additions of products, else one operation for each result."""
        terms: Counter[str] = Counter()
        for name in self.order:
            node = self.nodes[name]
            sources = [self.nodes[n] for n in node.inputs]
            if node.op in ("mm", "bmm"):
                terms[product([node.count, sources[0].shape[-1]])] += 2
            elif node.op == "convolution":
                weight = sources[1].shape
                terms[product([node.count, *weight[1:]])] += 2
            elif node.op in FOLDED:
                terms[sources[0].count] += 1
            else:
                terms[node.count] += 1
        text = ""
        for size, times in sorted(terms.items(), key=lambda term: -len(term[0])):
            more = (
                f"{text} + {product([size, str(times)])}" if text else product([size, str(times)])
            )
            text = more if len(more) <= MAX_CHARACTERS else text
        return text


def _text(value: Any) -> str:
    """A size as an expression of a contract."""
    return str(value["size"]) if isinstance(value, dict) else str(value)


def _base(op: str) -> str:
    """The operator's name, without its namespace and its overload."""
    parts = op.split(".")
    return parts[1] if parts[0] == "prims" else parts[0]


def _node(raw: Mapping[str, Any]) -> Node:
    return Node(raw["name"], _base(raw["op"]), raw["args"], raw["dtype"], tuple(raw["shape"]))


def _kernel_name(name: str) -> str:
    return f"{name}_kernel"


__all__ = ["SCRATCH", "PlainKernels", "parameters", "plain_kernels"]
