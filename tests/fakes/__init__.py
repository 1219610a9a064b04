"""Stand-ins for what lies beyond this project: Triton's backend interface and its server."""
