"""A conversation as lines: blocks, layout, painting."""
