"""The record of one run, the only state there is: events as JSON lines. See transcripts/README.md.

events          what is recorded
options         the options of a run, from the command line to the header and back
lines           a file's lines, bounded before anything is made of them
reader          a file back to events, lines of older versions as the present one
archive         zip files in memory, within bounds
run_folder      the folder of a run: its name, the files in it
writer          events to a file, one line at a time
turns           events to the typed chat, and back
spending        tokens, cost and the ledger as events
ledger          what a run has spent, from its records
time_use        where a run's time went, from its records
recorded_task   the task of a recorded run
recorded_cases  cases of a recorded run, bounded
under_way       whether a run is under way, and what it waits for
summary         a run as one document: for --json and Python, and all that views and reports show
"""
