"""What a gate or a selection said, as a ledger keeps it: which question, which noise, booleans."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from dpsql.accounting.events import AboveThreshold, Exponential, NoisyMax, Selection, from_dict
from dpsql.accounting.kept.pack import pack, unpack
from dpsql.query.canon import families
from dpsql.query.linear import Workload

VERSION = 5  # after those of `stored`, which keeps what was measured


@dataclass(frozen=True, slots=True)
class Told:
    """The answers to the queries of `question` in its order, up to the gate's last "above".

    Of a selection, of all of them: which one was chosen.
    """

    question: str
    event: AboveThreshold | Selection
    answers: tuple[bool, ...]

    @property
    def gate(self) -> AboveThreshold:
        assert isinstance(self.event, AboveThreshold)  # as the question has it
        return self.event

    @property
    def selection(self) -> Selection:
        assert not isinstance(self.event, AboveThreshold)  # as the question has it
        return self.event

    def to_bytes(self) -> bytes:
        answers = np.array(self.answers, np.int64)
        return pack(
            {
                "version": VERSION,
                "question": self.question,
                "event": self.event.to_dict(),
                "answers": answers,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Told:
        """What `to_bytes` wrote. Raises ValueError for anything else."""
        tree = unpack(data)
        try:
            if tree["version"] != VERSION:
                raise ValueError(f"not what a gate said, of version {VERSION}")
            event, answers = from_dict(tree["event"]), tree["answers"]
            if not isinstance(event, AboveThreshold | NoisyMax | Exponential):
                raise ValueError("not what a gate or a selection said")
            if type(tree["question"]) is not str:
                raise ValueError("not what a gate said")
            if answers.ndim != 1 or not np.isin(answers, (0, 1)).all():
                raise ValueError("a gate says booleans")
            if not isinstance(event, AboveThreshold) and answers.sum() != 1:
                raise ValueError("a selection chooses one")
            return cls(tree["question"], event, tuple(map(bool, answers.tolist())))
        except (KeyError, TypeError, AttributeError, ZeroDivisionError):
            raise ValueError("not what a gate said") from None


def question(workload: Workload, threshold: int | None) -> str | None:
    """A name of "which of these, in this order, reach the threshold"; None for too many cells.

    Without a threshold, of "which is the largest".
    The same for the same queries in the same order, in whatever words they came.
    """
    parts = [b"largest" if threshold is None else f"at least {threshold}".encode()]
    for listed in families(workload):
        for family in listed:
            if family is None:
                return None
            parts += [f"{family.key} x {family.factor}".encode(), family.origin.tobytes()]
    return hashlib.sha256(b", ".join(parts)).hexdigest()
