"""Where results live, are analysed and shown."""
