"""SQL of the swarm: write operations, reads, and rows as values.

Modules in `_ops` write, as a part of an op or as one op: those of turns are joined in `turn_ops`. `turn_records` and
`swarm_reads` read, and `row_values` converts rows. `load_mysis` and `restore` make the states of the two machines of
what was read.
"""
