"""One run: from options to a recorded chat.

api               `run()`: what the command and Python call
request           what to run, validated
session           the run itself
run_events        callbacks of a run under way
team              the AutoGen team
recorder          the transcript of a run under way
resume            resume and branch from a transcript
recorded_task     the task of a recorded run
recorded_cases    cases of a recorded run, bounded
recorded_options  options of a recorded run that the user must confirm
final_message     what a run says at its end
signals           event loop and Ctrl-C
approvers         who decides: terminal, file, or later
pending_approval  a run that waits for a decision
export            best/: the winner as a tvm-ffi module
provenance        where a run came from
telemetry         OpenTelemetry spans
"""
