"""Balance against replicas: every strategy measured in every cell.

`__main__` measures and writes the page, `cells` says what is measured, `front` compares the records
of a cell, and `tables` has the parts of the page.
"""
