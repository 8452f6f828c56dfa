"""The verb `process`: keyed state in versioned files, which moves between workers by key.

Read `process` first, then `tasks`: what a task does in a micro-batch. `processor` is what users
write; `work` runs it. `controller` makes plans (`state_plan`, `placing`), `bases` says which
version a plan builds on, and `moving` reads it. `version_files`, `held_state` and `state_tables`
are the states on disk and in memory.
"""
