"""The far side: Triton over gRPC."""
