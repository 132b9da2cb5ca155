"""Runs passes in sequence: parses their options, orders and times them."""
