"""The HTTP front: server, limits, headers, and strict reading of requests."""
