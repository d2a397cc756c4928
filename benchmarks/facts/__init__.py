"""Facts and talk for `benchmarks.sessions`: JSON lines, a folder each.

The authors of a and b did not see the program. That of c did: its questions share no word with their facts where that
can be avoided, and it has the talk of a.
"""
