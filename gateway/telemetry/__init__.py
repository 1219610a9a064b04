"""What the service tells about itself: metrics and log lines."""
