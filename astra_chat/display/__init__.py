"""What is printed: pure formatting of records.

console          text on the terminal, control codes removed
notes            notices on stderr
run_board        the live table of rounds, what is done, what is left
run_view         a run from its records, live and in replay
turn_view        what a turn of the chat is shown as
progress_bars    what moves while a run works: table of rounds, bars
step_bars        bars of the judge's steps
work_progress    how far a command that judges is, on stderr
output_modes     live text, result only, or JSON
tables           lists and tables, on a terminal and on a pipe
results_table    the table at the end of a run
spending_view    what a run spends
evaluation_view  evaluations and profiles
"""
