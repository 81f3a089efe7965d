"""Who speaks: roles, briefs, executor, and the turn order. May import tools, never astra_chat."""
