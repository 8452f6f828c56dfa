"""A sliding window as the list of its records; everything is recomputed from it."""

from __future__ import annotations

from collections import deque


class ReferenceWindow:
    def __init__(self, n_workers: int, slide: int, n_slides: int) -> None:
        self.n_workers = n_workers
        self.slide = slide
        self.slides: deque[list[tuple[int, int]]] = deque([[]], maxlen=n_slides)

    def expire(self) -> None:
        if len(self.slides[-1]) == self.slide:
            self.next_slide()

    def next_slide(self) -> None:
        self.slides.append([])  # the oldest one falls off the other end

    def add(self, key: int, worker: int) -> int:
        self.expire()
        self.slides[-1].append((key, worker))
        return self.fragmentation(key)

    def records(self) -> list[tuple[int, int]]:
        return [record for slide in self.slides for record in slide]

    def loads(self) -> list[int]:
        workers = [worker for _, worker in self.records()]
        return [workers.count(worker) for worker in range(self.n_workers)]

    def fragmentation(self, key: int) -> int:
        return len({worker for k, worker in self.records() if k == key})

    def holds(self, key: int, worker: int) -> bool:
        return (key, worker) in self.records()
