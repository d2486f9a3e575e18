"""Pure statistics: detection, attribution, gate, factorial effects. No session, no clock."""
