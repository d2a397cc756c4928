"""Import and export: JSON lines, Markdown, HTML, Zoea Nova."""
