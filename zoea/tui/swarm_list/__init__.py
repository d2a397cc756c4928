"""The swarm as lines: rows, columns, panels."""
