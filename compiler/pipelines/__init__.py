"""Runs passes in sequence: their options as text, their order, their time."""
