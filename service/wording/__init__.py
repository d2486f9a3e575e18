"""Words for people: how values, findings and decisions read, made where they are shown."""
