"""What `up` and `bench` start on this machine."""
