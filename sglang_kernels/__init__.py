"""Kernel tasks as data, one folder each: task.toml, baseline.cu, reference.py, script/. Those over
several GPUs are in several_gpus/.

tools/task/folder.py reads them; nothing imports them.
"""
