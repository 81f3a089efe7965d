"""Recorded runs as typed rows and tables: `from astra_chat import load_transcript`.

rows             what a row of each table holds
evaluation_rows  one row for each evaluation of a run
recorded_run     load_transcript, and the run that it returns
frames           rows as pandas DataFrames
"""
