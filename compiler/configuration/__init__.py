"""AMCT's configuration: settings as dataclasses, its two file formats, and files that record quantization parameters."""
