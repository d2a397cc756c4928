"""Parts of the strategy `window`: rules, shape of a conversation, summary of its middle."""
