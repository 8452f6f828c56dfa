"""The ledger: plans and reports as files in one folder, shared by all tasks of a query.

Read `ledger` first: what there is to write and to read. `files` turns arrays into bytes and back;
`folder` is a folder on any filesystem in which a file is whole or absent.
"""
