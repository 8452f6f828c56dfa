"""Cooperating sources, round by round: each round every source routes one record.

Dalton's protocol (section 4) in the plainest form: no jumps from event to event, a copy of every
message, and each answer handed out when its round has come.
"""

from __future__ import annotations

import numpy as np

from skewless.simulator.records import Records, decide
from skewless.simulator.syncing import next_interval, take_over
from skewless.state import copy_state
from skewless.strategy import Waits


class Rounds:
    """The sources, the reducer, and the messages between them; all times are rounds."""

    def __init__(self, strategy, states, interval, delays, work, bounds):
        self.strategy = strategy
        self.states = states
        self.interval = interval
        self.delays = delays
        self.work = work
        self.bounds = bounds
        self.now = 0
        self.sent = [0] * len(states)
        self.messages = [None] * len(states)  # at the reducer, or on the way to it
        self.answers = [None] * len(states)  # (when it arrives, the merged state, the interval)
        self.late = 0
        self.last_answer = 0
        self.syncs = []

    def route(self, keys, weights):
        """Return the workers of all records."""
        n = len(self.states)
        workers = np.full(keys.size, -1, np.int32)
        for i in range(keys.size):
            costs = None if weights is None else weights[i : i + 1]
            record = Records(keys[i : i + 1], costs)
            decide(self.strategy, record, self.states[i % n], workers[i : i + 1])
            if i % n == n - 1:
                self.now += 1
                self.exchange()
        return workers

    def exchange(self):
        self.deliver()
        for source, state in enumerate(self.states):
            waits = self.messages[source] is not None or self.answers[source] is not None
            if not waits and self.now >= self.sent[source] + self.interval:
                self.messages[source] = copy_state(state)
                if isinstance(self.strategy, Waits):
                    self.strategy.wait(state)
                self.sent[source] = self.now
        if all(message is not None for message in self.messages):
            self.reduce()
            self.deliver()

    def reduce(self):
        merged = self.strategy.merge(self.messages)
        complete = max(s + d for s, d in zip(self.sent, self.delays, strict=True))
        ready = complete + self.work(complete)
        received = ready + max(self.delays)
        idle, busy = min(self.sent) - self.last_answer, received - min(self.sent)
        interval = next_interval(self.interval, n_late=self.late, idle=idle, busy=busy)
        interval = max(self.bounds[0], min(interval, self.bounds[1]))
        self.syncs.append((max(self.sent), received, interval, self.late))
        self.answers = [(ready + d, merged, interval) for d in self.delays]
        self.messages = [None] * len(self.states)
        self.last_answer = received
        self.late = 0

    def deliver(self):
        arrived = [a is not None and a[0] <= self.now for a in self.answers]
        for source in np.flatnonzero(arrived):
            _, merged, interval = self.answers[source]
            self.answers[source] = None
            own = self.states[source]
            self.states[source] = take_over(self.strategy, merged, own, int(source))
            self.late += self.now - self.sent[source] > interval
            if not any(self.answers):
                self.interval = interval
