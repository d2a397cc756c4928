"""Swarm as lines: rows, broadcasts panel, needs-you panel."""
