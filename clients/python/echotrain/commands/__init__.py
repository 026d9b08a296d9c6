"""Work of `python -m echotrain` alone."""
