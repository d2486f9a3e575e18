"""The measurement of a case's throughput."""
