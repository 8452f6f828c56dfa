"""The verb `process`: keyed state in versioned files, which moves between workers by key.

Read `process` first, then `tasks`: what a task does in a micro-batch. `processor` is what users
write, and `work` runs it. The folder `planning` decides where keys live. The folder `versions`
keeps their states, and `moving` reads them for a worker. `checking` tests processors without Spark.
"""
