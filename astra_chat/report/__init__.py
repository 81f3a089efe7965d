"""Runs as one HTML file."""
