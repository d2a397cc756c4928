"""State that the screens share: the swarm feed, open approvals, drafts, settings forms."""
