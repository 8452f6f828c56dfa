"""Balance against replicas: every strategy measured in every cell.

`__main__` measures and writes the page, `cells` says what is measured, and `tables` compares the
records of a cell and has the parts of the page.
"""
