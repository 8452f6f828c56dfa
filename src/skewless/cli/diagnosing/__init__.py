"""`skewless diagnose`: start with `command`."""
