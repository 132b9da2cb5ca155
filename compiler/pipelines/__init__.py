"""Running passes one after the other: their options as text, their order, the time they take."""
