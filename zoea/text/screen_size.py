"""Limits the size of a screen that a terminal or a browser reports."""

SMALLEST, LARGEST = 1, 1_000
"""Limits of the columns, and of the rows. Drawing takes time and memory for each cell."""


def clamp_cells(cells: int) -> int:
    """Limit a number of columns or rows to what a screen may have."""
    return min(max(cells, SMALLEST), LARGEST)
