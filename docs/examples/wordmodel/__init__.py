"""A model with a kernel of its own, as an example: one operator, in Triton and in CUDA C++."""
