"""One file per subcommand: it says what may be typed, and calls."""
