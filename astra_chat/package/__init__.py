"""Winners of recorded runs, packaged for use elsewhere: `astra-chat package`.

winners             the winner of each task that recorded runs found
engine_file         engine.toml of a task: where an engine calls the operator
folder              the folder of a package, and its wheel
kernel_names        names of a winner's kernels as a profile shows them
proof               which kernels an engine ran in its CUDA graphs
plugins             plugins of what was proved
checking            a package beside the installed engine
sglang_pr           the files of a change to SGLang
command             the command
inside/             the plugin's runtime, which goes into each package as it is
"""
