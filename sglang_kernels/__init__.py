"""Kernel tasks as data, one folder each; tools/task/folder.py reads them, nobody imports them."""
