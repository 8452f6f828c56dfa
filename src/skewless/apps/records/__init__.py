"""The records of an application: files that are given, streams that are made, where results go."""
