"""The HTTP service: the OpenAI speech API in front of Triton."""
