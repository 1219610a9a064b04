"""A request from text to packets, without HTTP and without Triton."""
