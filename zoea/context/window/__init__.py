"""Parts of the strategy `window`: its rules, the shape of a conversation, and the summary of its middle."""
