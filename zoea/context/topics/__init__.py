"""Parts of the strategy `topics`: messages of the ledger, texts of a role, state snapshot, hints.

The packs are in `zoea.context.strategies.ledger_topics`; rows of the ledger are in `zoea.swarm.persistence.topic_ops`.
"""
