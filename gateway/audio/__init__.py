"""Samples and their encodings."""
