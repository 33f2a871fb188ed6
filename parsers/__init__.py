"""Files in, model out: one file per format."""
