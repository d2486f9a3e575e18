"""A team's own package, as an example: a model, and the file that says how to time it."""
