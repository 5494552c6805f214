"""Stands in for the real package, so that a test may change it."""
