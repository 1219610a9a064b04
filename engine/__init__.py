"""Prepares and starts Triton: model repository, server process, supervision."""
