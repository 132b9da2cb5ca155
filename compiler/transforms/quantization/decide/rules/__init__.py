"""The place of conditions before `decide/conditions.py`, kept for one release."""
