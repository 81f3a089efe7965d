"""The judge for users: what the command line, Python and MCP call alike.

evaluating  a judge by the words of the command line;
            one kernel in, one report out: evaluation, verdict and the words that the chat gets
gate        a new kernel beside the old one: may the change go in
"""
