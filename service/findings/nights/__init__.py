"""Reports what the schedules of a night measured, and what that showed."""
