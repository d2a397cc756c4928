"""Context commits: what agents know, as chains that can be read, joined, forked and collected.

This package stores conversations; `zoea.context` plans requests and knows no commit. `commit` and `entries` are the
values, `commit_rows` reads and `commit_ops` writes rows, `ref_names` and `revisions` name commits, and `chain_reader`
builds conversations. Myses commit by `zoea.swarm.commit_capture`.
"""
