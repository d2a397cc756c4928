"""The cockpit: the Textual app over `SwarmApi`. Fronts read views and events, and send commands; no rule lives here."""
