"""Which operators of PyTorch a call runs, and which of the kernels on the GPU are its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

MOVES = frozenset(
    "view reshape _unsafe_view _reshape_alias t transpose permute expand slice select unsqueeze"
    " squeeze empty empty_like empty_strided new_empty new_empty_strided detach alias clone copy_"
    " _to_copy contiguous as_strided zeros zeros_like new_zeros zero_ fill_ full full_like resize_"
    " unbind split chunk is_pinned _local_scalar_dense set_ record_stream ones ones_like equal"
    " scalar_tensor arange lift_fresh lift_fresh_copy view_as_real is_same_size narrow".split()
)
"""Operators that compute nothing of a result."""
FAMILIES = {
    "product": r"mm|addmm|bmm|baddbmm|matmul|linear|mv|dot|einsum|_scaled_mm",
    "convolution": r".*conv.*",
    "attention": r".*attention.*",
    "norm": r".*norm.*",
    "softmax": r".*softmax.*",
    "pooling": r".*pool.*",
}
"""Operators that stand for one another; each other one is a family of its own."""
LIBRARY = re.compile(
    r"at::native|at_cuda_detail|at::cuda|cublas|cudnn|cutlass_\d\d|xmma|^ampere_|^volta_|^sm\d\d_"
    r"|^nvjet|^void gemv(?:2[TN]|NSP|x::)|splitKreduce|^triton_(?:poi|red|per|tem|for)_"
    r"|pytorch_flash|fmha_cutlass|^void cub::|^Mem(?:set|cpy)|n?chwToN|nhwcToN|implicit_convolve"
    r"|::fft|^reduction_prod_kernel$"
)
"""Kernels of PyTorch, its two compilers, and NVIDIA's libraries."""


class Operators(TorchDispatchMode):
    """Names of the operators that this thread runs, in order."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Skipping it would load the compiler, which takes seconds."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def families(names: Iterable[str]) -> set[str]:
    """What these operators compute: families, and names of those that have none."""
    return set(counted(names))


def counted(names: Iterable[str]) -> Counter[str]:
    """How often each family of operators is among these."""
    bases = [name.split(".")[1] if "." in name else name for name in names]
    computing = [base.removesuffix("_") for base in bases if base not in MOVES]
    known = FAMILIES.items()
    return Counter(next((f for f, rule in known if re.fullmatch(rule, b)), b) for b in computing)


def own_kernels(names: Iterable[str]) -> list[str]:
    """Kernels that no library is known to have."""
    return sorted(name for name in names if not LIBRARY.search(name))
