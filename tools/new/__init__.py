"""`astra-chat new`: turns a kernel file into a task folder.

create           the command: reads a kernel file, writes the folder
source           tokens of a kernel file with their places, and the functions it defines
kernel_folder    the files of a folder that a kernel needs
project          what a kernel's files include of their project
stated           what comments and checks state of shapes, sizes and dtypes
tensor_matcher   the same from SGLang's TensorMatcher
aliases          second names of tensors in a host function
like_named       what kernels say of their parameters with a tensor's name
layout           shapes and strides, from code, comments and checks together
c_launcher       a file with a launcher in plain C++
written_launcher  launcher.cu: a plain function around a kernel, or what takes structs
structs          plain fields of structs, and which types are objects
framework        what a torch C++ extension or a tvm-ffi file exports
instance         a template or a static member function, chosen with its arguments
callable         what callers of a file use of it
unjudged_functions  what of a user's file a candidate leaves as it is
extension        an exported function of such a file as a draft
definition       a flashinfer-bench Definition as a draft
triton_kernel    the signature of a Triton kernel as a draft
triton_baseline  baseline.cu from Triton's machine code, and a launcher that chooses among it
triton_launch    what the user says of its launch: grid, constants, warps
valid_names      names of C++ as contracts have them
type_variables   dtypes of tensors, and the type variables among them
host_function    sizes, strides, shapes and dtypes that a framework's host function states
named_sizes      names for sizes such as x.size(0), so that they can be dims
module           a PyTorch module in KernelBench's form as a task
module_task      its task.toml as text
module_baseline  its baseline.cu: plain kernels and their launcher
module_kernels   one such kernel, from the module's operators
draft            the draft of a task, before it is written
binding          what the user's function is given
trial            what was written is built and recorded: what that tells
macro_guards     macros of the project's build without which a file does not build
learned          relations of sizes, from calls that fail
made_tensors     results and workspaces that a function makes itself
asked_dtypes     dtypes by the pointers that a call asks for
launched         which tensors the launches read and write
written_shapes   shapes of results that nothing states, from what calls write
extents          numbers that differ by case as expressions of dims
guesses          what the source leaves open: sizes of cases, ranges of indices, scales
task_files       task.toml and baseline.cu as text
reference_file   reference.py as text
reference_module  a function of PyTorch's as the reference
unfinished       places that the user still has to fill in
"""
