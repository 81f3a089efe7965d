"""Other projects' kernels beside ours: SGLang's as compiled, FlashInfer's headers, what SGLang
compiles at run time today, and a kernel that only streams.

Their code stays where the user has it; launchers/ holds thin launchers around it. The guard, which
is for candidates, is not applied: the user supplies them.

foreign    which kernels can be built here, and the task with which each builds
fatbin     machine code of CUDA kernels in a shared library
streaming  a kernel that only moves a task's mix of reads and writes
triton_kernels  SGLang's Triton kernels as CUDA source
cute_kernels  FlashInfer's norms in CuTe DSL as CUDA source
cute_child  the process that compiles them
torch_rivals  operators of PyTorch as rivals, which no launch plan describes
torch_child  the process that times one of them beside a kernel of ours
checked    their results on the virtual GPU
captured   launch plans of their host code by stream capture, on a GPU
cuda_record  the process that captures
beside     times kernels of one task beside each other, by the judge's method
measuring  all comparisons of several tasks, within a time budget
evidence   the file of measured comparisons
document   docs/research/baselines.md
"""
