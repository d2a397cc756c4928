"""Context commits: what agents know, as chains that can be read, joined, forked and collected."""
