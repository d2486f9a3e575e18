"""Where results live, are judged and shown."""
