"""Tokens, cost, time: limits and the ledger.

budget  --budget
ledger  what a run has spent, from its records
"""
