"""The HTTP surface: shapes, errors, endpoints."""
