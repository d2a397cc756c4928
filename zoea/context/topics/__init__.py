"""Prompts from a ledger of topics: selection and text of messages, state snapshot, hints for validators."""
