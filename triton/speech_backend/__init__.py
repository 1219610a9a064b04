"""What a speech model does inside Triton's Python backend."""
