"""Checks of the lab steps."""

from .compose import compose

__all__ = ["compose"]
