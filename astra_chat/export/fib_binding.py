"""The C++ by which flashinfer-bench calls a launcher: inputs first, then outputs.

It stands on the task's own tvm-ffi binding, which takes tensors in upstream's order and works in
place. An argument that is read and written is copied into its output before the launch, on the same
stream: that copy is part of the time that flashinfer-bench measures.
"""

from __future__ import annotations

from astra_chat.tools.build.tvm_ffi_binding import binding_source
from astra_chat.tools.task.folder import Task

ENTRY = "run"
COPY = """\
void copy(const TensorView& to, const TensorView& from) {
  const DLDevice device = from.device();
  DeviceScope scope(device.device_id);
  void* stream = TVMFFIEnvGetStream(device.device_type, device.device_id);
  int64_t bytes = (from.dtype().bits * from.dtype().lanes + 7) / 8;
  for (int32_t axis = 0; axis < from.ndim(); ++axis) bytes *= from.size(axis);
  const cudaError_t error = cudaMemcpyAsync(to.data_ptr(), from.data_ptr(), bytes,
                                            cudaMemcpyDeviceToDevice,
                                            static_cast<cudaStream_t>(stream));
  if (error != cudaSuccess) TVM_FFI_THROW(RuntimeError) << cudaGetErrorString(error);
}"""


def output_name(task: Task, name: str) -> str:
    """Returns the output's name of a written argument: names of inputs and outputs may not be the
    same."""
    both = next(arg for arg in task.args if arg.name == name).access == "readwrite"
    return f"{name}_out" if both else name


def source(task: Task) -> str:
    """C++ of the binding and of ENTRY. Raises BadInput where the task's binding cannot be made."""
    inputs = [arg.name for arg in task.args if arg.read]
    outputs = [output_name(task, arg.name) for arg in task.args if arg.written]
    scalars = [(scalar.type, scalar.name) for scalar in task.scalars]
    parameters = [
        *(f"TensorView {name}" for name in inputs),
        *(f"{'double' if kind == 'float' else 'int64_t'} {name}" for kind, name in scalars),
        *(f"TensorView {name}" for name in outputs),
    ]
    changed = [arg.name for arg in task.args if arg.access == "readwrite"]
    called = [output_name(task, arg.name) if arg.written else arg.name for arg in task.args]
    return "\n".join(
        [
            binding_source(task),
            "namespace {",
            *([COPY] if changed else []),
            f"void {ENTRY}_({', '.join(parameters)}) {{",
            *(f"  copy({output_name(task, name)}, {name});" for name in changed),
            f"  call({', '.join([*called, *(name for _, name in scalars)])});",
            "}",
            "}  // namespace",
            f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({ENTRY}, {ENTRY}_);",
            "",
        ]
    )
