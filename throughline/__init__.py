"""What programs import: `throughline.client` speaks with a service."""
