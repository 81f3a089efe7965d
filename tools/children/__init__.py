"""Modules that run in child processes only: the oracle and the two runners.

torch is imported here and nowhere else. Each reports through process.Reporter.
"""
