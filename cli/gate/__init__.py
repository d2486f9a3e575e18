"""`throughline gate`: two revisions measured against each other, and an exit code for CI."""
