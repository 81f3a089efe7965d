"""The chat: who acts, what each role is told, what its reply becomes. May import tools only.

turns             the kinds of turn, as plain values
run_state         the state of a run, folded turn by turn
rounds            a plan, its candidates, and what became of each
limits            how long a chat may continue
evaluations       is a candidate faster, what was profiled
turn_order        `next_step`: what comes next, also when a human is asked or a winner confirmed;
                  why a chat ends by its own rules
constants         marked constants: which kernel is tuned, and what comes of it
strategy          which source the next plan changes
memory_cards      what other runs found, and when a planner sees it
selector          chooses who acts, by rule or by asking a model
roles/            standing instructions of each role
prompt            the prompt of a turn; prompt_section: what its sections are; of its parts as text:
source_sections   the sections that show a source
task_text         the task, the launcher, how candidates are compared
source_text       sources with line numbers, and what is copied from them
idle_functions    what of a source no timed case runs
standing          how candidates stand against parent and best; which is kept
position          where in the chat a turn is: the last line of its prompt
role_agent        a role that a model plays: asks, checks the reply, sends it back if unusable
reply_errors      what is wrong with a reply
fact_check        replies that contradict the facts
edits             a kernel given as anchored edits
executor          takes candidates to the judge
judge_protocol    the judge as a run sees it
approval          what a human is asked, and what an answer becomes
plan_predictions  predictions of plans beside what came of them
messages          turns as AutoGen messages
"""
