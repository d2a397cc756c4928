"""The running swarm: the loops of myses, inbox, hold, approvals, events and live view."""
