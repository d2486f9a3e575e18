"""What commands print: tables, progress, formats."""
