"""The record of one run, the only state there is: events as JSON lines. See transcripts/README.md.

events: what is recorded; writer: onto the disk; reader: back; turns: events to the typed thread and
back.
"""
