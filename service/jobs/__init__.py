"""Submissions and their reports, jobs, leases, workers and schedules."""
