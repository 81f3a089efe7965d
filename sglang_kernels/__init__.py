"""Kernel tasks as data, one folder each; tools/tasks.py reads them, nobody imports them."""
