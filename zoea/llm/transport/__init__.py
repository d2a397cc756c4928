"""HTTP to model servers: client, errors, admission, event streams."""
