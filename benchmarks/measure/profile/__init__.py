"""The profile of a few steps, and the pure functions that read where their time goes."""
