"""The documents that the API answers with and the command line reads: pydantic, nothing else."""
