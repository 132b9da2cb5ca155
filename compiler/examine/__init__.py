"""A compilation examined: each step by numbers, models that fail made smaller, and the page of a run."""
