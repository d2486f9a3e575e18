"""A synthetic history, and our real results beside it: what `throughline demo` serves."""
