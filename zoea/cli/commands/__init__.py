"""The commands of `zoea`, one module for each group."""
