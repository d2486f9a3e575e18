"""How one throughput number comes to be."""
