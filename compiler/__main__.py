"""`python -m amct_opt` is the command `amct`."""

from .tools.entry import amct

if __name__ == "__main__":
    amct()
