"""Headers of ours that stand for torch's, ATen's, c10's, pybind11's and tvm-ffi's.

A user's file is compiled unmodified against them, without torch: tensors know where they lie and
what they look like, and compute nothing. What kernel files do not need of a framework is not there;
a call of it is a compile error that says what to do (extension_sources/). NVIDIA's libraries, which
a toolkit may lack, are there by name only, but for the random numbers of kernels.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

FOLDER = "extension"
"""Folder of these headers, beside the source; searched before the project's own, which may be
PyTorch's, and before the toolkit's, in front of which `cub/cub.cuh` stands."""
FLAGS = (f"-I{FOLDER}",)
_TORCH = """
torch: all.h extension.h library.h torch.h types.h python.h cuda.h script.h
torch/csrc: Exceptions.h utils/pybind.h autograd/custom_function.h api/include/torch/types.h
    api/include/torch/cuda.h stable/library.h stable/tensor.h stable/ops.h stable/accelerator.h
    inductor/aoti_torch/c/shim.h inductor/aoti_torch/utils.h stable/device.h stable/macros.h
    stable/stableivalue_conversions.h stable/version.h stable/c/shim.h stable/tensor_inl.h
    stable/tensor_struct.h stable/device_struct.h stable/device_inl.h
torch/headeronly: core/ScalarType.h util/Exception.h util/BFloat16.h util/Half.h macros/Macros.h
    core/Dispatch.h core/Dispatch_v2.h util/shim_utils.h util/HeaderOnlyArrayRef.h
    util/Float8_e4m3fn.h util/Float8_e5m2.h util/Float8_e4m3fnuz.h util/Float8_e5m2fnuz.h
    util/Float8_e8m0fnu.h util/Float4_e2m1fn_x2.h util/bit_cast.h util/complex.h util/TypeTraits.h
    util/Metaprogramming.h core/TensorAccessor.h
    core/Layout.h core/MemoryFormat.h core/DeviceType.h util/TypeIndex.h version.h
ATen: ATen.h AccumulateType.h ArrayRef.h Context.h Device.h DeviceGuard.h Dispatch.h Functions.h
    NumericUtils.h OpMathType.h ScalarOps.h ScalarType.h Tensor.h TensorAccessor.h TensorUtils.h
    Utils.h ceil_div.h core/Tensor.h core/TensorAccessor.h core/TensorBase.h core/List.h
    CUDAGeneratorImpl.h core/Generator.h Generator.h
    ops/empty.h ops/empty_like.h ops/zeros.h ops/zeros_like.h ops/full.h core/ScalarType.h
ATen/cuda: CUDAContext.h CUDAContextLight.h CUDAUtils.h CUDADataType.h Exceptions.h DeviceUtils.cuh
    NumericLimits.cuh CUDAEvent.h detail/KernelUtils.h detail/IndexUtils.cuh detail/TensorInfo.cuh
    Atomic.cuh CUDATensorMethods.cuh CUDAGeneratorImpl.h CUDAGraphsUtils.cuh PhiloxCudaState.h
    detail/UnpackRaw.cuh PhiloxUtils.cuh
ATen/native: cuda/KernelUtils.cuh cuda/block_reduce.cuh
c10: core/Device.h core/DeviceGuard.h core/DeviceType.h core/Layout.h core/MemoryFormat.h
    core/Scalar.h core/ScalarType.h core/Stream.h core/TensorOptions.h core/Allocator.h
c10/cuda: CUDAException.h CUDAFunctions.h CUDAGuard.h CUDAMacros.h CUDAMathCompat.h CUDAStream.h
    CUDACachingAllocator.h
c10/macros: Macros.h Export.h
c10/util: ArrayRef.h BFloat16.h BFloat16-inl.h Exception.h Float8_e4m3fn.h Float8_e5m2.h Half.h
    Half-inl.h Logging.h Optional.h OptionalArrayRef.h SmallVector.h StringUtil.h bit_cast.h
    intrusive_ptr.h irange.h string_view.h strong_type.h Float8_e8m0fnu.h Float8_e4m3fnuz.h
    Float8_e5m2fnuz.h TypeCast.h complex.h
THC: THC.h THCAtomics.cuh
pybind11: pybind11.h stl.h numpy.h functional.h
"""
_TVM = """
tvm/ffi: any.h container/array.h container/map.h container/shape.h container/tensor.h
    container/tuple.h container/variant.h dtype.h error.h extra/c_env_api.h
    extra/cuda/device_guard.h extra/module.h function.h optional.h string.h tvm_ffi.h object.h
    memory.h c_api.h reflection/registry.h
dlpack: dlpack.h
"""
_LIBRARIES = {
    "libraries.h": "cublas_v2.h cublas.h cublasLt.h cusparse.h cufft.h curand.h nccl.h cudnn.h"
    " nvrtc.h",
    "random.h": "curand_kernel.h curand_philox4x32_x.h",
}
"""Headers of NVIDIA's libraries, by ours that stands for them where the toolkit has none."""
_CUB = """#pragma once
#include_next <cub/cub.cuh>
#if CUB_MAJOR_VERSION >= 3
namespace cub {
using Sum = ::cuda::std::plus<>;
using Max = ::cuda::maximum<>;
using Min = ::cuda::minimum<>;
}
#endif
"""
"""CUDA 13's cub without the names of CUDA 12 that it dropped: files need them."""
_PYTHON = """#pragma once
struct PyObject;
struct PyModuleDef {
  int base;
  const char* name;
  const char* doc;
  int size;
  void* methods;
};
#define PyModuleDef_HEAD_INIT 0
#define PyMODINIT_FUNC [[maybe_unused]] static PyObject*
static inline PyObject* PyModule_Create(PyModuleDef*) { return nullptr; }
"""


def is_torchs(name: str) -> bool:
    """Whether a header is PyTorch's."""
    return re.match(r"(ATen|c10|torch|THC?)/", name) is not None


def stand_in(name: str) -> str:
    """A header in the place of one of PyTorch's that is not among ours; "" for other names. What
    it lacks is then an error of the compiler that names it."""
    stands = is_torchs(name) and not name.endswith(".cuh")
    return "#pragma once\n#include <astra/extension.h>\n" if stands else ""


def _names(table: str) -> list[str]:
    """The paths of a table: folders, each with what lies in it."""
    found, folder = [], ""
    for word in table.split():
        if word.endswith(":"):
            folder = word[:-1]
        else:
            found.append(f"{folder}/{word}")
    return found


@cache
def header_texts() -> dict[str, str]:
    """Texts of all headers, by path relative to the source's folder."""
    core = {
        f"astra/{path.name}": path.read_text()
        for path in files("astra_chat.tools.build.extension_sources").iterdir()
        if path.name.endswith(".h")
    }
    named = dict.fromkeys(_names(_TORCH), "extension.h") | dict.fromkeys(_names(_TVM), "tvm_ffi.h")
    forwards = {
        name: f"#pragma once\n#include <astra/{target}>\n" for name, target in named.items()
    }
    forwards |= {
        name: f"#pragma once\n#if __has_include_next(<{name}>)\n#include_next <{name}>\n#else\n"
        f"#include <astra/{target}>\n#endif\n"
        for target, names in _LIBRARIES.items()
        for name in names.split()
    }
    texts = {**core, **forwards, "Python.h": _PYTHON, "cub/cub.cuh": _CUB}
    return {f"{FOLDER}/{name}": text for name, text in texts.items()}


HEADERS = re.compile(
    "<(" + "|".join(re.escape(n) for n in (*_names(_TORCH), *_names(_TVM), "Python.h")) + ")>"
)
"""Includes that these headers stand for."""
