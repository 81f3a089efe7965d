"""Campaigns: many runs by one file, as many at once as their budgets allow.

campaign_file  the file: what is crossed with what, and the budgets
plan           the runs of a campaign, and the command of each
rows           where each run stands, from its transcript
index          index.json: the campaign as one document
results        tables: the runs, the arms of each task side by side
overview       the campaign on the screen, while it runs and at its end
driver         starts the chats, follows them, and shares out the budget
chat           one chat, in a process that ends with the driver's
"""
