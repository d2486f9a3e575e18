"""Backups, and verification of every guarantee."""
