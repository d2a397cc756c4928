"""Parts of the strategy `window`: rules, shape of a conversation, summary of its middle.

The packs are in `zoea.context.strategies.sliding_window`. `prompt_context` reads what a prompt overrides for its turn;
of that the budgets hold for every strategy. Summaries of commits are written by the same parts.
"""
