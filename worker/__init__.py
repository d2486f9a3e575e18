"""Runs benchmarks: pulls jobs, supervises a child process, and posts what it measured."""
