"""What a measurement says: its bottleneck, its parity, and what to try next. Without torch."""
