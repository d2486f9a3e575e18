"""The measuring side: workloads, axes, the measurement protocol, and contracts with the service."""
