"""poot's qualification suite: what users and we judge it by. See `python -m qualification --help`."""
