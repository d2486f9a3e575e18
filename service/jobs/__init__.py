"""Submissions, jobs, leases, workers and schedules."""
