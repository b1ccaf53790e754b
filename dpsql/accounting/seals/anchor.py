"""The anchor: how far a ledger has come, kept in a small file outside it.

It holds the number and the link of the newest entry. A ledger that has fewer entries, or another
one in that place, was truncated or replaced by an older copy. It is written after a charge is
durable, so that it may be behind the ledger, after a crash, but never ahead of it.

The file is made once, two slots of one disk sector each, and overwritten in place: the older slot
with the newer mark, each with a mac. A write that a power cut tears leaves the other slot, and no
write asks for room on the disk. It is not synchronised: what a power cut takes back is a mark that
is then only behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from dataclasses import dataclass
from io import FileIO

from dpsql.accounting.books import forks
from dpsql.accounting.seals.seal import Seal
from dpsql.accounting.seals.secret import publish
from dpsql.errors import LedgerError

SLOT = 512
KEPT = 4  # texts of slots that are remembered
PATIENCE = 500  # milliseconds that another writer is waited for
WORD = "dpsql-anchor-1"
VERIFY = "dpsql budget verify DB says more, and what to do"


@dataclass(frozen=True, slots=True)
class Mark:
    """The number and the mac of an entry; 0 and the origin of the chain before there are any."""

    seq: int
    head: str


class Anchor:
    """The file `path` for the ledger of `seal`; errors call the ledger `name`.

    One that is not `needed` does without what its folder does not allow; one of a ledger that is
    `still`, which this process may only read, is never written.
    """

    def __init__(
        self, path: str, seal: Seal, name: str, *, needed: bool = True, still: bool = False
    ) -> None:
        self.path = path
        self._seal, self._ledger, self._needed, self._still = seal, name, needed, still
        self._file = os.path.basename(path)
        self._read: dict[str, Mark | None] = {}  # what the slots said when they were read last

    def make(self, mark: Mark) -> None:
        """Write the file with this mark, unless there is one."""
        if self._still:
            return
        try:
            publish(self.path, self._slot(mark) + b" " * SLOT)
        except OSError as error:
            self._fail(error)

    def remove(self) -> None:
        """Take the file away, so that another one can be made."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def read(self) -> Mark | None:
        """The newest mark, None where there is no file. Raises LedgerError for a strange one."""
        try:
            mode = "r" if self._still else "r+"  # what cannot be written will be of no use
            with FileIO(self.path, mode) as file:
                marks = self._marks(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._fail(error)
            return None
        return max((mark for mark in marks if mark), key=lambda mark: mark.seq)

    def advance(self, mark: Mark) -> None:
        """Keep `mark` unless a newer one is kept. Raises LedgerError."""
        if self._still:
            return
        try:
            with _gate.lock, FileIO(self.path, "r+") as file:
                _lock(file)
                marks = self._marks(file)
                ranks = [-1 if found is None else found.seq for found in marks]
                if max(ranks) < mark.seq:
                    place = SLOT * ranks.index(min(ranks))
                    slot = self._slot(mark)
                    os.pwrite(file.fileno(), slot, place)
                    self._remember(slot.decode("ascii").rstrip(), mark)
        except OSError as error:
            self._fail(error)

    def _slot(self, mark: Mark) -> bytes:
        words = f"{WORD} {self._seal.ledger} {self._seal.key_name} {mark.seq} {mark.head}"
        return f"{words} {self._seal.mac(words)}".encode().ljust(SLOT - 1) + b"\n"

    def _marks(self, file: FileIO) -> list[Mark | None]:
        """The marks of both slots, None for an empty or torn one; at least one is whole."""
        content = os.pread(file.fileno(), 2 * SLOT + 1, 0)
        slots = [content[:SLOT], content[SLOT:]]
        marks = [self._mark(slot.decode("ascii", "replace").rstrip()) for slot in slots]
        if len(content) != 2 * SLOT or not any(marks):
            raise LedgerError(
                f"{self._ledger}: its anchor {self._file} is damaged, or was written by something"
                f" else than dpsql; restore it ({VERIFY})"
            )
        return marks

    def _mark(self, text: str) -> Mark | None:
        known = self._read
        if text in known:
            return known[text]
        found = self._checked(text)
        self._remember(text, found)
        return found

    def _remember(self, text: str, mark: Mark | None) -> None:
        self._read = dict([*self._read.items(), (text, mark)][-KEPT:])  # replaced: threads read it

    def _checked(self, text: str) -> Mark | None:
        words = text.split(" ")
        if len(words) != 6 or words[0] != WORD:
            return None
        if words[1] != self._seal.ledger:
            raise LedgerError(
                f"{self._ledger}: its anchor {self._file} is that of another ledger: was the"
                f" ledger replaced? restore the one of this ledger ({VERIFY})"
            )
        if words[2] != self._seal.key_name:
            raise LedgerError(
                f"{self._ledger}: its key is not the one that it was sealed with; restore that one"
                f" ({VERIFY})"
            )
        if self._seal.mac(" ".join(words[:5])) != words[5]:
            return None
        return Mark(int(words[3]), words[4])

    def _fail(self, error: OSError) -> None:
        if not self._needed:
            return
        what = (error.strerror or "").lower() or errno.errorcode.get(error.errno or 0, "failed")
        raise LedgerError(
            f"{self._ledger}: its anchor {self._file} cannot be read and written: {what}; check"
            " the rights on it"
        ) from None


class _Gate:
    """Lets no fork happen while a file is locked: the child would hold the lock as well."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def before_fork(self) -> None:
        self.lock.acquire()

    def after_fork(self, process: int) -> None:
        self.lock.release()


_gate = _Gate()
forks.watch(_gate)


def _lock(file: FileIO) -> None:
    """Keep others from writing at the same time, until the file is closed.

    They are not waited for without end: all that is lost without the lock is a mark that a slower
    writer of an older one overwrites.
    """
    for _ in range(PATIENCE):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.001)
        else:
            return
