"""Where answers come from.

open_models          the models that --models names
run_models           each role's model, as a chat asks it
spec                 --models, taken apart
scripted, script     a task's script/
openai*              OpenAI and compatible servers: client, options, errors
recording*           record:, auto: and replay: around models and judge
transcript_models    what was said in a recorded run
random_models        kernels drawn by lot, to compare strategies
metered              models and judge behind the meter of a run
retry                of requests that a server refused or lost
layer, answer        what a client wrapped around another needs
schema, trial        structured replies; one question asked for a try
difference           what differs from a recording
offline              clients that ask nobody
"""
