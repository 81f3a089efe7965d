"""Memory across tasks: a file of cards, which the user reads, edits, shares and switches off.

cards    the cards of one recorded run, where its winner was confirmed
file     the file: read, written, and what of it a run gets
"""
