"""Parts of the strategy `topics`, which plans requests from a ledger of messages.

The packs are in `zoea.context.strategies.ledger_topics`; rows of the ledger are in `zoea.swarm.persistence.topic_ops`.
"""
