"""Writes to a pull request about its gates and a finding: a status line and one comment.

A comment begins with its answer. At most `ROWS` cases have a row: what changed, then what could not
be measured. The others are counted.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.catalog.metrics import metric
from service.schemas import gate as schemas
from service.schemas.comparisons import ComparisonRequest, ComparisonState
from service.schemas.policy import Policy
from service.wording import formats, markdown

ROWS = 10
"""Of all gates of a comment together."""
GATES = 5
"""Gates that a comment shows; the others are counted."""
DESCRIPTION = 140
"""Characters that a status of GitHub may have."""
_REASON = 200
_REPEAT = 10_000
"""Characters of a command that is shown: a forge takes some 64,000 in a comment."""
_COUNTED = frozenset(
    {schemas.CaseVerdict.SAME, schemas.CaseVerdict.NOT_WORSE, schemas.CaseVerdict.UNSUPPORTED}
)
_MOVED = frozenset({schemas.CaseVerdict.BETTER, schemas.CaseVerdict.ALLOWED})
_ORDER = {
    schemas.Outcome.REGRESSION: 0,
    schemas.Outcome.INCONCLUSIVE: 1,
    None: 2,
    schemas.Outcome.PASS: 3,
}
_LINKS = re.compile(r"(@(?=\w)|\\[#!](?=\w)|:(?=//)|www(?=\.))")
"""Where a forge would mention a person, refer to an issue or make a link."""


@dataclass(frozen=True, slots=True)
class ShownGate:
    """A gate of a pull request."""

    id: str
    request: ComparisonRequest
    state: ComparisonState
    cases: int
    decision: schemas.DecisionView | None
    link: str

    @property
    def name(self) -> str:
        """The subject of the measurement: the suite, or ``cases``."""
        return self.request.suite or "cases"

    @property
    def head(self) -> str:
        """The commit that shows its status."""
        assert self.request.pull_request is not None
        return self.request.pull_request.head

    @property
    def outcome(self) -> schemas.Outcome | None:
        """None while it runs, and where it was cancelled."""
        return None if self.decision is None else self.decision.outcome


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding that a merged pull request made."""

    state: str
    """``open``, or how it ended."""
    headline: str
    sentence: str
    case_key: str
    commit: str
    parent: str
    link: str


def answer(gate: ShownGate) -> tuple[str, str]:
    """The answer in a few words, never good without data, and what there is to say of it."""
    count = formats.counted(gate.cases, "case")
    if gate.decision is None:
        ended = gate.state is ComparisonState.CANCELLED
        return ("Cancelled: nothing was decided.", "") if ended else (f"Measuring {count}.", "")
    if gate.request.baseline == gate.request.contender:
        return "Not decided: a revision beside itself.", "That checks the set-up."
    return _decided(gate.decision, count)


def _decided(decision: schemas.DecisionView, count: str) -> tuple[str, str]:
    cases = decision.cases
    worse = [one for one in cases if one.verdict in schemas.REGRESSIONS]
    better = [one for one in cases if one.verdict is schemas.CaseVerdict.BETTER]
    lost = [one for one in cases if one.verdict not in schemas.GOOD | schemas.REGRESSIONS]
    if len(lost) == len(cases):
        return "Nothing could be compared.", f"{count}: {_tally(cases)}." if cases else ""
    without = f"{len(lost)} without an answer: {_tally(lost)}." if lost else ""
    gains = f"{len(better)} better{_most(better)}." if better else ""
    match decision.outcome:
        case schemas.Outcome.REGRESSION:
            said = f"Regression in {len(worse)} of {count}{_most(worse)}."
            return said, _joined(gains, without)
        case schemas.Outcome.INCONCLUSIVE:
            said = f"Not decided: {len(lost)} of {count} without an answer."
            return said, _joined(f"{_tally(lost)}.", gains)
    if better:
        said = f"No regression, and {len(better)} of {count} better{_most(better)}."
        return said, without
    return f"No regression in {count}.", without


def description(gate: ShownGate) -> str:
    """The answer for a status, cut at a word."""
    said = _plain(_joined(*answer(gate)))
    if len(said) <= DESCRIPTION:
        return said
    return said[: DESCRIPTION - 1].rpartition(" ")[0].rstrip(" ;:,") + "…"


def gates_comment(gates: Sequence[ShownGate]) -> str:
    """The comment on a pull request, without its marker; the newest gate of each name is in it."""
    ordered = sorted(gates, key=lambda one: (_ORDER[one.outcome], one.name))
    shown = ordered[:GATES]
    room = ROWS // max(len(shown), 1)
    parts = ["\n\n".join(_gate(gate, room, several=len(gates) > 1)) for gate in shown]
    if more := len(ordered) - len(shown):
        parts.append(f"{formats.counted(more, 'more gate')} not shown here.")
    return "\n\n---\n\n".join(parts)


def review(gate: ShownGate) -> str:
    """The answer as plain text, for a forge whose comments are no Markdown."""
    lines = [f"Throughline, {gate.name}: {_plain(_joined(*answer(gate)))}"]
    if gate.decision is not None:
        lines += [
            f"* {case.case_key}: {case.verdict.value.replace('_', ' ')}. "
            f"{_plain(_cut(case.sentence))}"
            for case in _rows(gate.decision.cases)[:ROWS]
        ]
    return "\n".join([*lines, "", f"Measure it again: {command(gate.request)}", gate.link])


def finding_comment(finding: ShownFinding) -> str:
    """The comment on a merged pull request, without its marker."""
    closed = {"resolved": "Recovered.", "withdrawn": "Withdrawn: it was never there."}
    if finding.state == "open":
        begins = f"**Regression after the merge: {text(finding.headline)}.**"
    else:
        said = closed.get(finding.state, f"Closed as {finding.state.replace('_', ' ')}.")
        begins = f"**{said}** Before: {text(finding.headline)}."
    case = shlex.quote(finding.case_key)
    repeat = (
        f"throughline gate \\\n  --baseline {finding.parent} \\\n  --contender {finding.commit} "
        f"\\\n  --case {case}"
    )
    link = f"[The finding with its evidence]({finding.link}). To measure it again:"
    return "\n\n".join([begins, text(finding.sentence), link, _code(repeat)])


def command(request: ComparisonRequest) -> str:
    """The command line that measures the same again."""
    words = ["throughline", "gate", "--baseline", request.baseline]
    words += ["--contender", request.contender]
    cases = request.cases or ((request.case,) if request.case else ())
    words += ["--suite", request.suite] if request.suite else []
    for case in cases:
        words += ["--case", case.key]
    words += _limits(request.policy)
    default = ComparisonRequest.model_fields
    if request.budget_s != default["budget_s"].default:
        words += ["--budget", f"{request.budget_s:g}s"]
    for name, value in sorted(request.requires.items()):
        words += ["--require", f"{name}={value}"]
    words += ["--worker", request.worker] if request.worker else []
    words += ["--project", request.project] if request.project else []
    words += [] if request.duet else ["--no-duet"]
    return shlex.join(words)


def text(said: str) -> str:
    """Text of a stranger on one line: no markup, no link, and nobody is mentioned."""
    line = " ".join(said.split())
    return _LINKS.sub("\\1\u200b", markdown.escape(line))


def _gate(gate: ShownGate, room: int, *, several: bool) -> Iterator[str]:
    begins, rest = answer(gate)
    name = f"{text(gate.name)}: " if several else ""
    yield _joined(f"**{name}{text(begins)}**", text(rest))
    if gate.decision is not None:
        rows = _rows(gate.decision.cases)
        if rows:
            sure = f"{round(100 * (1 - gate.decision.false_pass))} % interval"
            lines = (_row(case) for case in rows[:room])
            yield markdown.table(("case", "change", sure, "verdict"), lines)
        hidden = [case for case in gate.decision.cases if case not in rows[:room]]
        if hidden and rows:
            yield f"{formats.counted(len(hidden), 'more case')}: {_tally(hidden)}."
        yield from (f"Note: {text(_cut(warning))}" for warning in gate.decision.warnings[:3])
    ends = " against ".join(
        formats.revision(one) for one in (gate.request.contender, gate.request.baseline)
    )
    link = f"{text(ends)}, {text(gate.name)}. [Every number and attempt]({gate.link})."
    repeat = command(gate.request).replace(" --", " \\\n  --")
    if gate.state is ComparisonState.RUNNING or len(repeat) > _REPEAT:
        yield link
    else:
        yield f"{link} To measure it again:"
        yield _code(repeat)


def _rows(cases: Sequence[schemas.CaseFindingView]) -> list[schemas.CaseFindingView]:
    """The cases that have a row: worse, better, allowed, then those without an answer."""
    named = [case for case in cases if case.verdict not in _COUNTED]
    return sorted(named, key=_rank)


def _rank(case: schemas.CaseFindingView) -> tuple[int, float]:
    size = abs(case.metrics[0].change) if case.metrics else 0.0
    if case.verdict in schemas.REGRESSIONS:
        return 0, -size
    return (1, -size) if case.verdict in _MOVED else (2, 0.0)


def _row(case: schemas.CaseFindingView) -> tuple[str, ...]:
    key = "`" + case.case_key.replace("`", "'").replace("|", "\\|") + "`"
    verdict = case.verdict.value.replace("_", " ")
    said = f"**{verdict}**" if case.verdict in schemas.REGRESSIONS else verdict
    answered = case.verdict in schemas.GOOD | {schemas.CaseVerdict.WORSE}
    if not answered:
        said += f": {text(_cut(case.sentence))}"
    if not case.metrics or (not answered and case.verdict is not schemas.CaseVerdict.UNCLEAR):
        return key, formats.DASH, formats.DASH, said
    change, between = formats.metric_change(case.metrics[0])
    return key, f"{metric(case.metrics[0].metric).title} {change}", between, said


def _most(cases: Sequence[schemas.CaseFindingView]) -> str:
    """Name the largest change among cases of one direction, if one was measured."""
    moved = [one for one in cases if one.metrics and one.verdict is not schemas.CaseVerdict.PARITY]
    if not moved:
        return f": {cases[0].case_key} {_tally(cases[:1])}" if cases else ""
    most = max(moved, key=lambda one: abs(one.metrics[0].change))
    change, between = formats.metric_change(most.metrics[0])
    title = metric(most.metrics[0].metric).in_sentence
    which = "" if len(cases) == 1 else "the largest "
    return f": {which}{change} {title} ({between}) in {most.case_key}"


def _tally(cases: Sequence[schemas.CaseFindingView]) -> str:
    count = Counter(case.verdict for case in cases)
    if len(count) == 1:
        return cases[0].verdict.value.replace("_", " ")
    return ", ".join(
        f"{count[one]} {one.value.replace('_', ' ')}" for one in schemas.CaseVerdict if count[one]
    )


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _limits(policy: Policy) -> list[str]:
    if policy == Policy():
        return []
    plain = Policy(rules=policy.rules) == policy and len(policy.rules) == 1
    rule = policy.rules[0] if plain else None
    if rule is None or rule.trades or len(rule.limits) != 1 or rule.cases != "*":
        return ["--policy", "gate.toml"]
    limit = rule.limits[0]
    words = ["--max-regression", f"{limit.max_regression:g}"] if limit.max_regression else []
    default = type(limit).model_fields["margin"].default
    return words + (["--margin", f"{limit.margin:g}"] if limit.margin != default else [])


def _cut(said: str) -> str:
    return said if len(said) <= _REASON else said[:_REASON].rpartition(" ")[0] + " …"


def _plain(said: str) -> str:
    return " ".join(said.replace(formats.NBSP, " ").split())


def _code(line: str) -> str:
    return f"```sh\n{line}\n```"
