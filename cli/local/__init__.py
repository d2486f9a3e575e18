"""The parts that `up` and `bench` start on this machine."""
