"""Model backends.

open_models          the models that --models names
run_models           each role's model, as the chat calls it
spec                 parses --models
scripted, script     a task's script/
openai_client, openai_options  OpenAI and compatible servers
providers            what each provider's server is like
server_error         a server's error, in whatever form
recording, recording_client, recording_judge  record:, auto: and replay:, around models and judge
transcript_models    replies of a recorded run
mailbox              questions in a folder, answered by whoever writes a file
metered              models and judge behind the meter of a run
layer, answer        what a client wrapped around another needs
schema, trial        structured replies; a trial request
offline              clients without a live model
"""
