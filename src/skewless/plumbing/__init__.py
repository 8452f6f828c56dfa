"""What every floor uses and no reader looks for: compiling, checks of arguments, private files."""
