"""What can be measured: cases, suites, precision tiers, and how long they take."""
