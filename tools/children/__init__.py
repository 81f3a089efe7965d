"""Modules that run in child processes only: the oracle and the two runners.

torch is imported here and nowhere else. Each reads its request and reports through process.Reporter.
"""
