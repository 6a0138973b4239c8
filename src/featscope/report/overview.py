"""What the page says first: papers against verdicts, kinds against verdicts, and what became of each
statement, in sentences made from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from featscope.claims.claim import Verdict
from featscope.report.entries import KIND_NAMES, Entry
from featscope.report.values import printed_number


@dataclass(frozen=True)
class Meaning:
    """A verdict for the eye and the ear: a sign, a word, verbs for sentences, and what it means."""

    verdict: str
    sign: str
    word: str
    verb: str
    plural: str
    text: str


#: in the order of the legend and of every table
MEANINGS = {
    meaning.verdict: meaning
    for meaning in (
        Meaning(
            Verdict.HOLDS,
            "✓",
            "holds",
            "holds",
            "hold",
            "The number that the statement speaks of is on its side of the bound, with its interval.",
        ),
        Meaning(
            Verdict.FAILS,
            "✗",
            "fails",
            "fails",
            "fail",
            "It is on the other side, with its interval; the statement is contradicted at this setting.",
        ),
        Meaning(
            Verdict.INCONCLUSIVE,
            "?",
            "inconclusive",
            "is undecided",
            "inconclusive",
            "The interval has the bound inside it: more seeds or more examples would decide.",
        ),
        Meaning(
            Verdict.OUT_OF_SCOPE,
            "⊘",
            "out of scope",
            "is read outside its hypotheses",
            "out of scope",
            "A hypothesis of the statement is not met here; which, and the verdict it would get, is said "
            "beside it.",
        ),
        Meaning(
            Verdict.VACUOUS,
            "∅",
            "vacuous",
            "says nothing",
            "vacuous",
            "The statement's own constants leave it empty at this setting: no run could contradict it.",
        ),
    )
}
#: kinds that the headlines speak of
HEADLINE_KINDS = ("theorem", "proposition")
#: readings that a sentence names before it says how many more there are
NAMED = 5


@dataclass(frozen=True)
class Group:
    """The readings of one claim that got one verdict."""

    meaning: Meaning
    entries: tuple[Entry, ...]

    @property
    def named(self) -> tuple[Entry, ...]:
        """Those that a sentence names."""
        return self.entries[:NAMED]

    @property
    def more(self) -> int:
        """How many it does not name."""
        return len(self.entries) - len(self.named)

    @property
    def would(self) -> str:
        """What out-of-scope readings would say: "2 would hold, 1 would fail"."""
        counts = Counter(entry.would_be for entry in self.entries if entry.would_be in MEANINGS)
        return ", ".join(
            f"{n} would be “{MEANINGS[str(verdict)].word}”" for verdict, n in counts.most_common()
        )


@dataclass(frozen=True)
class Statement:
    """A claim with all its readings."""

    id: str
    paper: str
    kind: str
    reference: str
    statement: str
    entries: tuple[Entry, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """Its readings by verdict, in the legend's order."""
        return tuple(
            Group(meaning, found)
            for verdict, meaning in MEANINGS.items()
            if (found := tuple(e for e in self.entries if e.verdict == verdict))
        )

    @property
    def summary(self) -> str:
        """What became of it in a few words."""
        groups, n = self.groups, len(self.entries)
        if len(groups) == 1:
            every = "in its only reading" if n == 1 else f"in all {n} readings"
            return f"{groups[0].meaning.verb} {every}"
        return ", ".join(f"{group.meaning.verb} in {len(group.entries)} of {n}" for group in groups)


@dataclass(frozen=True)
class Tally:
    """A row of a matrix: a name and how often each verdict was given."""

    name: str
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """All of the row."""
        return sum(self.counts)


def statements(entries: Iterable[Entry]) -> tuple[Statement, ...]:
    """The claims of these lines, in the ledger's order."""
    by_id: dict[str, list[Entry]] = {}
    for entry in entries:
        by_id.setdefault(entry.id, []).append(entry)
    return tuple(
        Statement(name, e[0].paper, e[0].kind, e[0].short_reference, e[0].statement, tuple(e))
        for name, e in by_id.items()
    )


def tally(name: str, entries: Sequence[Entry]) -> Tally:
    """How often each verdict was given."""
    counts = Counter(entry.verdict for entry in entries)
    return Tally(name, tuple(counts[verdict] for verdict in MEANINGS))


def by_paper(entries: Sequence[Entry]) -> tuple[Tally, ...]:
    """Papers × verdicts, papers in the ledger's order."""
    papers = dict.fromkeys(entry.paper for entry in entries)
    return tuple(tally(paper, [e for e in entries if e.paper == paper]) for paper in papers)


def kinds(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The kinds of statements that occur, in their usual order."""
    found = dict.fromkeys(entry.kind for entry in entries)
    return tuple(
        sorted(found, key=lambda kind: KIND_NAMES.index(kind) if kind in KIND_NAMES else len(KIND_NAMES))
    )


def by_kind(entries: Sequence[Entry]) -> tuple[Tally, ...]:
    """Kinds × verdicts."""
    return tuple(tally(kind, [e for e in entries if e.kind == kind]) for kind in kinds(entries))


def headlines(entries: Sequence[Entry]) -> tuple[Statement, ...]:
    """The statements that a paper is known for; where a paper has no theorem, all it has."""
    found: list[Statement] = []
    for paper in dict.fromkeys(entry.paper for entry in entries):
        own = statements(e for e in entries if e.paper == paper)
        found += [s for s in own if s.kind in HEADLINE_KINDS] or own
    return tuple(found)


def numbered(count: int, what: str) -> str:
    """A count with its word: "1 run", "2 runs"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def count_sentence(entries: Sequence[Entry]) -> str:
    """How many statements in how many readings, and their verdicts: "2 statements, 3 readings: 2 hold, 1
    fails"."""
    known, counts = len({entry.id for entry in entries}), tally("", entries).counts
    told = [
        f"{n} {meaning.word if n == 1 else meaning.plural}"
        for n, meaning in zip(counts, MEANINGS.values(), strict=True)
        if n
    ]
    counted = f"{numbered(known, 'statement')}, {numbered(len(entries), 'reading')}: "
    return counted + (", ".join(told) or "none judged")


def against(entry: Entry) -> str:
    """The number that decided, beside its bound: "0.97 (0.91 to 1), at least 0.95"."""
    if entry.value is None:
        return ""
    value = printed_number(entry.value)
    if entry.low is not None and entry.high is not None and entry.low != entry.high:
        value += f" ({printed_number(entry.low)} to {printed_number(entry.high)})"
    if entry.bound is None:
        return value
    return f"{value}, {entry.direction or 'against'} {printed_number(entry.bound)}"
