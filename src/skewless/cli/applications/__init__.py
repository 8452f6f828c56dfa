"""`skewless run`: start with `commands`."""
