"""The package for programs: `throughline.client` speaks with a service."""
