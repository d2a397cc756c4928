"""Themes: files, styles by role, ASCII filter."""
