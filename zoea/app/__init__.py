"""The composition root: Settings -> a running swarm, and its doors for other processes.

`compose.running_swarm` builds it, `owner.own` gives it a workspace and a socket,
`remote.RemoteSwarm` is the same swarm from elsewhere. Import what you need by its
module: commands that only ask load nothing of the rest.
"""
