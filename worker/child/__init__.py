"""Child processes: started in containment, watched, limited and ended."""
