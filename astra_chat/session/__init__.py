"""One run: from options to a recorded chat.

api               `run()`: what the command and Python call
request           what to run, validated
session           the run itself, and its AutoGen team
ahead             what a repeated run asks of the judge first, done before it
results           what a run leaves behind
run_events        callbacks of a run under way
progress_note     how far the judge is, as a file for whoever waits elsewhere
judges            the judge of a run: here, or by jobs
advance           runs that wait for a judge, and which can go on
recorder          the transcript of a run under way
resume            resume and branch from a transcript
recorded_options  options of a recorded run that the user must confirm
final_message     what a run says at its end
signals           event loop and Ctrl-C
export            best/: the winner as a tvm-ffi module
export_example    the example beside it, on the task's own inputs
provenance        where a run came from
telemetry         OpenTelemetry spans
"""

import astra_chat.tools  # noqa: F401  # says so where astra-vgpu is missing
