"""Trials of gangs on a machine with several GPUs."""
