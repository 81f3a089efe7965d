"""The chat: who acts, what each role is told, what its reply becomes. May import tools only.

turns             the kinds of turn, as plain values
run_state         facts of a chat, derived from its turns: rounds, cases, best candidate
turn_order        who may act next
strategy          which source the next plan changes
search_state      how far the search has come, and whether another plan is worth it
selector          chooses who acts, by rule or by asking a model
selector_prompt   what that model is asked
roles/            standing instructions of each role
prompt            the prompt of a turn
role_agent        a role that a model plays: asks, checks the reply, sends it back if unusable
reply_errors      what is wrong with a reply
fact_check        replies that contradict the facts
edits             a kernel given as anchored edits
executor          takes candidates to the judge
approval          what a human is asked, and what an answer becomes
approval_gates    when a human is asked, and when a winner is confirmed
plan_predictions  predictions of plans beside what came of them
messages          turns as AutoGen messages
"""
