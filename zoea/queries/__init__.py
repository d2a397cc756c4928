"""What all fronts show of the stored swarm: read-only queries, and sentences about the results.

Queries are synchronous: a front calls them in a thread, with or without a running swarm. `fork_costs` plans the first
request of a fork, and `written_times` parses times as people type them. `phrases`, `status_phrases` and `error_report`
read nothing: they make the sentences that the cockpit, the command line and clients share.
"""
