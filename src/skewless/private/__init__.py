"""Private data of one user: `files` writes files for this user only, `folders` checks folders."""
