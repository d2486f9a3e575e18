"""Results and their artifacts that wait on disk until the service has them."""
