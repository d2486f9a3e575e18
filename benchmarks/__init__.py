"""What is measured: workloads, axes, the measurement protocol, and the words both sides share."""
