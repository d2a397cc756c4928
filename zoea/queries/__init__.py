"""Read-only queries for fronts: conversations, requests, search, events, broadcasts."""
