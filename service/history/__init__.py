"""Results, series, revisions, and the stored analysis of each series."""
