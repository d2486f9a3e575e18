"""The one command, `throughline`, that people and CI type: it parses, calls and prints."""
