"""A human decides what is run and accepted: at once, by a file, or later. What is asked, and what
an answer becomes, is agents/approval.py; the command is cli/approve.py.

approvers  who decides: the terminal, a file of decisions, a recorded run, or nobody yet
pending    a run that waits for a decision: read from its transcript, answered into it
view       what the human is shown
"""
