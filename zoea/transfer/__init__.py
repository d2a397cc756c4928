"""Import and export of conversations: JSON lines, Markdown, HTML, Zoea Nova.

`export` writes all formats, `jsonl_*` and `nova_*` read theirs, `run_import` holds the workspace. Bundles of
context commits are in `zoea.chain`.
"""
