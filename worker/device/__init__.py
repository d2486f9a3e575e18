"""The device of this worker: what it is, its state, and whether it can measure now."""
