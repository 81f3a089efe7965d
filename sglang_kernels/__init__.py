"""Kernel tasks as data, one folder each: task.toml, baseline.cu, reference.py, script/.

tools/task/folder.py reads them; nothing imports them.
"""
