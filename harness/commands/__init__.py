"""One file per command. A command declares options, calls one function and prints what it wrote."""
