"""The settings of what a swarm serves to other programs: MCP clients and Prometheus."""

from __future__ import annotations

from zoea.settings.fields import Section, Whole, Words, setting


class McpSettings(Section):
    """Zoea as an MCP server for other clients. `zoea mcp token new NAME` creates their tokens."""

    http: bool = setting(False, "Serve over HTTP", "Serve clients over HTTP whenever the swarm runs.")
    host: str = setting(
        "127.0.0.1",
        "Address",
        "The address to listen on. Outside this machine tokens are sent unencrypted.",
        min_length=1,
    )
    port: Whole = setting(9632, "Port", "The port to listen on; 0 takes any free port.", ge=0, le=65_535)
    hosts: Words = setting((), "Names", "Additional host names that clients may use, for example of a proxy.")


class MetricsSettings(Section):
    """Metrics for Prometheus over HTTP; `--metrics` serves them for one run."""

    serve: bool = setting(False, "Serve metrics", "Serve metrics at /metrics whenever the swarm runs.")
    host: str = setting(
        "127.0.0.1",
        "Address",
        "The address to listen on. The numbers are readable by everyone who reaches it.",
        min_length=1,
    )
    port: Whole = setting(2112, "Port", "The port to listen on; 0 takes any free port.", ge=0, le=65_535)
