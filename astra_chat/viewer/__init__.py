"""Recorded runs and runs under way in a browser.

command     `astra-chat view` and `astra-chat runs list`
runs        the runs in a folder, and what each of them waits for
server      serves them on loopback, read-only
templates/  index and run under way; the style sheet is the report's
"""
