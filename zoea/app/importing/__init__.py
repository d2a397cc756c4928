"""Bringing in what another workspace, or Zoea Nova, has stored. Each way in is a module of its own."""
