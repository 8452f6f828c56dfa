"""Applications on Spark, each small: they use what users use, and import nothing private."""
