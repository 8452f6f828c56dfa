"""What belongs to one user: `files` writes files for this user alone, `folders` checks folders."""
