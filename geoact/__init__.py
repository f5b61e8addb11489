"""Continuous control by geometry: train, compare and deploy Geometric Action Control policies."""

__version__ = "0.1.0"
