"""A model with a kernel of its own, as an example: one operator, in Triton on a GPU."""
