"""Reports of submissions, as values and as Markdown."""
