"""Connections to a server: docs/protocol.md, spoken over sockets."""
