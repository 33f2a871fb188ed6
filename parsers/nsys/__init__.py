"""Reading the SQLite export of Nsight Systems, whatever its schema version."""
