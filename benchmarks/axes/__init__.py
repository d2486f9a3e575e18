"""One file per optimization axis."""
