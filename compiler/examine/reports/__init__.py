"""The report of a run: measurements for it during quantization, and the page that is drawn from the files of a folder."""
