"""Is a DataFrame skewed, and what would each strategy make of it?"""
