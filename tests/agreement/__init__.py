"""How often equal results are called different, and how often one percent more work is found."""
