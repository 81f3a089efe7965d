"""What a torch extension may use: a table of headers, operators of PyTorch and other names.

The operators are those that the modules of KernelBench's levels 1 to 3 need beside kernels of one's
own: products, convolutions, attention, norms, pooling, and what makes and reshapes tensors. The
source is read by name; what a macro hides is seen in the built library (build.py).
"""

from __future__ import annotations

import re

from astra_chat.tools.policy.rules import Rule

HEADERS = re.compile(
    r"<(torch/(extension|types|all|torch)\.h|ATen/(ATen|Functions|core/Tensor|Dispatch)\.h"
    r"|ATen/cuda/(CUDAContext|Exceptions)\.h"
    r"|c10/(cuda/CUDA(Stream|Guard|Exception)|util/(Exception|Optional|ArrayRef|Half|BFloat16))\.h"
    r"|vector|string)>"
)
"""Beside those of any kernel (policy/rules.py)."""

COMPUTING = frozenset(
    "mm addmm bmm baddbmm matmul linear mv addmv dot convolution conv1d conv2d conv3d"
    " conv_transpose1d conv_transpose2d conv_transpose3d scaled_dot_product_attention softmax"
    " log_softmax batch_norm layer_norm group_norm instance_norm native_batch_norm"
    " native_layer_norm native_group_norm rms_norm max_pool1d max_pool2d max_pool3d avg_pool1d"
    " avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"
    " adaptive_max_pool1d adaptive_max_pool2d cumsum cumprod sum mean amax amin argmax argmin"
    " max_pool2d_with_indices embedding lstm gru relu gelu sigmoid tanh silu add sub mul div"
    " exp sqrt rsqrt".split()
)
"""Operators that compute results; with `_` or `_out` behind the name, too."""
MAKING = frozenset(
    "empty empty_like empty_strided new_empty zeros zeros_like new_zeros ones full full_like zero_"
    " fill_ copy_ clone contiguous view reshape permute transpose t squeeze unsqueeze expand"
    " expand_as flatten unflatten slice select narrow chunk split split_with_sizes unbind cat stack"
    " pad constant_pad_nd to type_as alias detach as_strided size stride numel is_contiguous"
    " _to_copy movedim swapaxes flip roll unfold".split()
)
"""Operators that make tensors and change their shapes."""
OPERATORS = COMPUTING | MAKING

NAMES = re.compile(
    r"Tensor|TensorBase|TensorOptions|ScalarType|IntArrayRef|ArrayRef|Half|BFloat16|Scalar|Device"
    r"|DeviceType|MemoryFormat|Layout|SmallVector|optional|nullopt|OptionalArrayRef|RestrictPtrTraits"
    r"|PackedTensorAccessor(32|64)?|k[A-Z]\w+|str|irange|elementSize|toString|Error|multiply_integers"
    r"|cuda|getCurrentCUDAStream|CUDAStream|CUDAGuard|OptionalCUDAGuard|device_of|indexing|native"
    r"|getCurrentDeviceProperties|dtype|device|ceil_div|opmath_type|max|min"
)
"""Names behind at::, torch:: and c10:: that are no operators."""
SCOPES = frozenset(("at", "torch", "c10"))

KEPT = "every call must compute its results from its arguments alone, so it may keep no state"
RULES = (
    Rule(
        "from_blob set_ set_data storage unsafe_storage unsafeGetTensorImpl unsafeReleaseTensorImpl"
        " getIntrusivePtr resize_ resize_as_ DataPtr StorageImpl TensorImpl",
        "a tensor's memory may be accessed only through the tensor",
    ),
    Rule("item cpu is_pinned pin_memory to_dense", "it would wait for the GPU", called=True),
    Rule(
        "CUDAGraph graph_pool_handle MempoolId_t CUDAEvent CUDACachingAllocator getStreamFromPool"
        " getStreamFromExternal setCurrentCUDAStream getDefaultCUDAStream CUDAStreamGuard"
        " CUDAMultiStreamGuard record_stream",
        "all work must go to the current stream, each time the function is called",
    ),
    Rule(
        "PYBIND11_MODULE TORCH_LIBRARY TORCH_LIBRARY_IMPL TORCH_LIBRARY_FRAGMENT pybind11 PyObject"
        " py Py_* RegisterOperators Library Dispatcher DispatchKeySet KernelFunction CppFunction"
        " jit",
        "Astra registers forward: define it, and register nothing with Python or the dispatcher",
    ),
    Rule(
        "AutoGradMode NoGradGuard InferenceMode globalContext Context manual_seed Generator"
        " ThreadPool parallel_for launch at_parallel",
        "it changes the state of the process for later calls, or starts threads",
    ),
    Rule("thread_local", KEPT),
    Rule(
        "uintptr_t intptr_t",
        "what a call does must not depend on the addresses of its tensors",
    ),
    Rule("mutex once_flag call_once atomic_flag condition_variable", KEPT),
)
"""Names that are refused beside those that no kernel may use; `called`: only as f(...) or x.f()."""

LIBRARY_RULES = re.compile(
    r"at::(native|cpu|cuda::(blas|detail|CUDAGraph)|meta|Context|globalContext|detail::\w*Hooks)\b"
    r"|c10::(cuda::(CUDACachingAllocator|getStreamFromPool|setCurrentCUDAStream|getStreamFromExternal)"
    r"|Dispatcher|impl::OperatorEntry)\b|torch::(autograd|jit::(?!parseSchema))\w*|Py[A-Z_]\w*"
)
"""What a built library may not ask of PyTorch's libraries; and operators that are not listed."""
RUNTIME = re.compile(
    r"__cuda(RegisterFatBinary(End)?|UnregisterFatBinary|RegisterFunction|RegisterVar|"
    r"(Push|Pop)CallConfiguration|InitModule|GetKernel|LaunchKernel\w*)|cudaLaunchKernel\w*"
    r"|cuda(GetDeviceCount|GetKernel)|__(cxa|gxx)_\w+|_Unwind_\w+|__libc_single_threaded"
    r"|__tls_get_addr|_ITM_\w+|__gmon_start__|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__dso_handle"
    r"|free|malloc|exit|atexit"
)
"""Names that compilers and C++'s library put into any library; memory of C's is the host's."""


def operator_of(name: str) -> str:
    """The operator of the list that a function's name stands for; "" where there is none.
    `add_`, `mm_out` and `softmax_int` are add, mm and softmax."""
    for word in (name, name.removesuffix("_"), name.removesuffix("_out")):
        if word in OPERATORS:
            return word
    while "_" in name:
        name = name.rpartition("_")[0]
        if name in OPERATORS:
            return name
    return ""
