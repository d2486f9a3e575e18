"""A decision as text, Markdown, JUnit XML or JSON."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from xml.etree import ElementTree as ET

from rich.text import Text

from benchmarks.terminal import LINES, printable
from cli.output.console import Console, paper, table
from service.schemas import gate as schemas
from service.schemas.comparisons import ComparisonView
from service.wording import formats, markdown
from service.wording.markdown import escape

_COLOUR = dict.fromkeys(schemas.GOOD, "green") | dict.fromkeys(schemas.REGRESSIONS, "red")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class GateFormat(StrEnum):
    """The formats in which a decision is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    JSON = "json"


@dataclass(frozen=True)
class Shown:
    """A comparison that was decided, as the command line shows it."""

    comparison: ComparisonView
    text: str
    """The service's answer, word for word."""
    url: str
    lenient: bool
    """Whether an inconclusive case counts as passed."""

    @property
    def decision(self) -> schemas.DecisionView:
        """The decision, which is there."""
        assert self.comparison.decision is not None
        return self.comparison.decision

    @property
    def address(self) -> str:
        """The address at which a browser shows the comparison."""
        return f"{self.url.rstrip('/')}{self.comparison.page}"

    def written(self, shown_as: GateFormat) -> str:
        """The whole as one text, without a line's end."""
        match shown_as:
            case GateFormat.JSON:
                return printable(self.text.rstrip("\n"), LINES)
            case GateFormat.MARKDOWN:
                return printable("\n\n".join(self._markdown()), LINES)
            case GateFormat.JUNIT:
                return printable(self._junit(), LINES)
            case GateFormat.TEXT:
                return self._table().rstrip("\n")

    def _table(self) -> str:
        attempts = f"{self._attempts()}; each job is named at {self.address}"
        outcome = self.decision.outcome.value.upper()
        return as_text(self.decision, f"{outcome}: {self._tally()}", attempts)

    def _tally(self) -> str:
        one_revision = self.comparison.baseline == self.comparison.contender
        return tally(self.decision, one_revision=one_revision)

    def _attempts(self) -> str:
        # A job that was cancelled while it waited had no attempt.
        used = [one for one in self.decision.used if one.attempt is not None]
        if not used:
            return "No attempt gave a result"
        workers = sorted({one.worker for one in used if one.worker})
        devices = sorted({one.device for one in used if one.device})
        where = f" by {' and '.join(workers)}" if workers else ""
        device = f" on {' and '.join(devices)}" if devices else ""
        return f"{formats.counted(len(used), 'attempt')}{where}{device}"

    def _markdown(self) -> Iterator[str]:
        compared = self.comparison
        yield f"## Gate: {self.decision.outcome.value}"
        yield f"{escape(compared.contender)} against {escape(compared.baseline)}. {self._tally()}"
        rows = [tuple(escape(cell) for cell in _cells(case)) for case in self.decision.cases]
        yield markdown.table(_head(self.decision), rows)
        yield "\n".join(
            f"- {escape(case.case_key)}: {escape(case.sentence)}" for case in self.decision.cases
        )
        for warning in self.decision.warnings:
            yield f"**Note:** {escape(warning)}"
        yield f"[Every number and attempt]({self.address}): {escape(self._attempts())}."
        attempts = [
            (
                escape(one.case_key),
                str(one.pair + 1),
                one.side,
                f"`{one.job_id}`",
                str(one.attempt or formats.DASH),
            )
            for one in self.decision.used
        ]
        if attempts:
            listed = markdown.table(("case", "pair", "side", "job", "attempt"), attempts)
            yield f"<details><summary>Attempts used</summary>\n\n{listed}\n\n</details>"

    def _junit(self) -> str:
        comparison = self.comparison
        name = _xml(f"throughline gate {comparison.baseline} -> {comparison.contender}")
        suite = ET.Element("testsuite", name=name, timestamp=comparison.created_at.isoformat())
        for case in self.decision.cases:
            self._add_case(suite, case)
        self._add_gate(suite)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("tests", str(len(suite.findall("testcase"))))
        listed = [f"{self.decision.outcome.value}: {self.decision.sentence}"]
        listed += [f"Note: {warning}" for warning in self.decision.warnings]
        listed += [self.address]
        listed += [
            f"{one.case_key} | pair {one.pair + 1} {one.side} | job {one.job_id} "
            f"attempt {one.attempt or formats.DASH} | {one.worker or formats.DASH} {one.device}"
            for one in self.decision.used
        ]
        ET.SubElement(suite, "system-out").text = _xml("\n".join(listed))
        ET.indent(suite)
        return ET.tostring(suite, encoding="unicode", xml_declaration=False)

    def _add_gate(self, suite: ET.Element) -> None:
        """Add an error for an inconclusive gate without one: a file without errors reads as a
        pass."""
        has_error = any(suite.findall(f"testcase/{tag}") for tag in ("failure", "error"))
        if self.decision.outcome is not schemas.Outcome.INCONCLUSIVE or self.lenient or has_error:
            return
        element = ET.SubElement(suite, "testcase", classname="throughline.gate", name="gate")
        message, kind = _xml(self.decision.sentence), self.decision.outcome.value
        ET.SubElement(element, "error", message=message, type=kind)

    def _add_case(self, suite: ET.Element, case: schemas.CaseFindingView) -> None:
        name = _xml(case.case_key)
        element = ET.SubElement(suite, "testcase", classname="throughline.gate", name=name)
        if case.verdict in schemas.GOOD:
            return
        tag = "failure" if case.verdict in schemas.REGRESSIONS else "error"
        if case.verdict == "unsupported" or (tag == "error" and self.lenient):
            tag = "skipped"
        message = _xml(f"{plain(case.verdict)}: {case.sentence}")
        remark = ET.SubElement(element, tag, message=message)
        if tag != "skipped":
            remark.set("type", case.verdict)


def as_text(decision: schemas.DecisionView, told: str, *more: str) -> str:
    """A decision as a table, a sentence for each case, and the tally that was ``told``."""
    width, is_terminal = paper().width, paper().is_terminal
    head = _head(decision)
    drawn = table(*head, right=head[1:-1], whole=head[1:-1])
    for case in decision.cases:
        *cells, verdict = _cells(case)
        drawn.add_row(*cells, Text(verdict, style=_COLOUR.get(case.verdict, "yellow")))
    sink = io.StringIO()
    console = Console(file=sink, width=width, force_terminal=is_terminal)
    console.print(drawn)
    for case in decision.cases:
        console.say(f"{case.case_key}: {case.sentence}")
    for line in (*(f"Note: {warning}" for warning in decision.warnings), told, *more):
        console.say(line)
    return sink.getvalue()


def _head(decision: schemas.DecisionView) -> tuple[str, ...]:
    sure = f"{round(100 * (1 - decision.false_pass))} % interval"
    return ("case", "baseline", "contender", "change", sure, "pairs", "verdict")


def tally(decision: schemas.DecisionView, *, one_revision: bool) -> str:
    """Count what was decided; ``one_revision`` says that one was held against itself."""
    cases = decision.cases
    count = formats.counted(len(cases), "case")
    wrong = sum(case.verdict in schemas.REGRESSIONS for case in cases)
    open_ = sum(
        case.verdict not in (*schemas.REGRESSIONS, *schemas.GOOD, "unsupported") for case in cases
    )
    match decision.outcome:
        case schemas.Outcome.PASS:
            return f"{count}, none worse than allowed."
        case schemas.Outcome.REGRESSION:
            return f"{wrong} of {count}.{_chance(decision)}"
        case schemas.Outcome.INCONCLUSIVE if one_revision:
            return f"{count} of one revision against itself, which checks the set-up."
        case schemas.Outcome.INCONCLUSIVE if not open_:
            return f"{count}, none of which could be compared."
        case schemas.Outcome.INCONCLUSIVE:
            return f"{open_} of {count} could not be decided; the sentences say why."


def _chance(decision: schemas.DecisionView) -> str:
    if not any(case.verdict == "worse" for case in decision.cases):
        return ""
    alarm = formats.share(decision.false_alarm / 2)
    return f" Of equal revisions at most {alarm} end so by chance."


def forecast(cases: Sequence[schemas.CaseForecast[str]]) -> Iterator[str]:
    """Yield what to expect of each case, the time for all of them, and of how many nobody knows."""
    known = [case for case in cases if case.noise is not None]
    unknown = [case for case in cases if case.noise is None]
    for case in known:
        yield f"{case.case_key}: {_lower(case.sentence)}"
    if unknown:
        several = f"{len(unknown)} of {len(cases)} cases"
        whose = unknown[0].case_key if len(unknown) == 1 else several
        yield f"{whose}: {_lower(unknown[0].sentence)}"
    elif known and all(case.duration_s for case in known):
        span = formats.duration(sum(case.duration_s or 0.0 for case in known))
        sentence = f"Equal revisions take about {span} on an idle worker."
        yield sentence.replace(formats.NBSP, " ")


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _cells(case: schemas.CaseFindingView) -> tuple[str, ...]:
    if not case.metrics:
        empty = (formats.DASH,) * 4
        return (case.case_key, *empty, str(case.pairs), plain(case.verdict))
    first = case.metrics[0]
    return (
        case.case_key,
        formats.quantity(first.baseline, first.unit),
        formats.quantity(first.contender, first.unit),
        *formats.metric_change(first),
        str(case.pairs),
        plain(case.verdict),
    )


def plain(verdict: str) -> str:
    """A verdict as people write it."""
    return verdict.replace("_", " ")


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
