"""How much of which source has been read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provender.nlp.order.plan import SourceFacts


@dataclass(frozen=True)
class SourceReport:
    """What was read of one source.

    Attributes:
        records: in the source.
        examples: read of it by all hosts, records of a later epoch counted again.
        epochs: ``examples / records``.
        epoch: whole passes.
        coverage: share of the source read in the pass under way, 0 to 1; 1 right after a pass.
        share: of all examples read, 0 to 1.
        weight: share that the mixture gives it now, 0 to 1.
    """

    records: int
    examples: int
    epochs: float
    epoch: int
    coverage: float
    share: float
    weight: float


@dataclass(frozen=True)
class OrderReport:
    """What was read up to a step.

    Attributes:
        step: steps done.
        examples: read by all hosts.
        sources: by name.
        former: name -> examples of sources that an earlier part of the training read.
    """

    step: int
    examples: int
    sources: Mapping[str, SourceReport]
    former: Mapping[str, int]

    def as_dict(self) -> dict[str, Any]:
        """The report, ready for JSON."""
        return {
            "step": self.step,
            "examples": self.examples,
            "sources": {name: vars(each) for name, each in self.sources.items()},
            "former": dict(self.former),
        }

    def __str__(self) -> str:
        rows = [("source", "records", "examples", "epochs", "share", "weight")]
        rows += [
            (
                name or "(all)",
                f"{each.records:,}",
                f"{each.examples:,}",
                f"{each.epochs:.3f}",
                f"{each.share:.2%}",
                f"{each.weight:.2%}",
            )
            for name, each in self.sources.items()
        ]
        rows += [(name, "", f"{count:,}", "", "", "") for name, count in self.former.items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if at == 0 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([f"step {self.step:,}, {self.examples:,} examples", *lines])


def report_of(
    step: int,
    examples: int,
    facts: Sequence[SourceFacts],
    counts: Sequence[int],
    shares: Sequence[int],
    former: Mapping[str, int],
) -> OrderReport:
    """The report from counts.

    Args:
        step: steps done.
        examples: read by all hosts, of former sources too.
        facts: the sources.
        counts: examples read of each.
        shares: of the mixture now.
        former: name -> examples of sources that are no longer read.
    """
    total = sum(shares)
    sources = {}
    for each, count, share in zip(facts, counts, shares, strict=True):
        passes, rest = divmod(count, each.records) if each.records else (0, 0)
        sources[each.name] = SourceReport(
            records=each.records,
            examples=count,
            epochs=count / each.records if each.records else 0.0,
            epoch=passes,
            coverage=rest / each.records if rest else float(bool(passes)),
            share=count / examples if examples else 0.0,
            weight=share / total,
        )
    return OrderReport(step, examples, sources, dict(former))
