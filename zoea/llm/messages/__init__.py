"""Rules for messages and answers that all providers share."""
