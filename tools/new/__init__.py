"""`astra-chat new`: turns a kernel file into a task folder.

create           the command: reads a kernel file, writes the folder
source           tokens of a kernel file with their places, and the functions it defines
headers          a kernel's files as one source and its headers
c_launcher       a file with an extern "C" launcher
framework        a torch C++ extension or a tvm-ffi file: what it exports
host_function    sizes, shapes and dtypes that a framework's host function states
named_sizes      names for sizes such as x.size(0), so that they can be dims
draft            the draft of a task, before it is written
baseline_source  baseline.cu from a framework's file, without the framework
task_files       task.toml, baseline.cu and reference.py as text
unfinished       places that the user still has to fill in
"""
