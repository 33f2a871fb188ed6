"""Runs things: the command line, the recorder, profilers and the machine they run on."""
