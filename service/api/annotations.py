"""The routes of annotations: what people write beside the histories."""

from __future__ import annotations

from benchmarks import contracts
from service.api import dependencies
from service.api.findings import Actor
from service.api.results import Reason
from service.api.router import Noun
from service.auth import audit
from service.auth.permissions import Permission
from service.history import annotation_table
from service.schemas.annotations import AnnotationView
from service.schemas.jobs import Listing

router = Noun("/annotations", "annotations")


class AnnotationRequest(contracts.Contract):
    """A sentence beside the histories, about a revision or about a time."""

    text: Reason
    revision: contracts.Revision | None = None
    """Its name, or the beginning of it."""
    at: contracts.Moment | None = None
    project: contracts.Name | None = None
    """Null: it is shown in all projects."""
    actor: Actor | None = None
    """Null: whoever the token is of."""


@router.get("")
@Permission.READ.required
def list_annotations(
    session: dependencies.DatabaseSession,
    cursor: dependencies.Cursor = None,
    limit: dependencies.Limit = 50,
) -> Listing[AnnotationView]:
    """List what people wrote beside the histories, the newest first."""
    return Listing.of(annotation_table.list_annotations(session, after=cursor, limit=limit))


@router.post("", status_code=201)
@Permission.TRIAGE.required
def add_annotation(
    request: AnnotationRequest,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    caller: dependencies.Caller,
) -> AnnotationView:
    """Write beside the histories of a project, or of all, at a `revision` or at a time.

    Pages mark it on charts, and files of points have it beside the point that it comes before.
    """
    about = request.model_dump(include={"revision", "at", "project"})
    actor = request.actor or caller.name
    made = annotation_table.add(session, request.text, actor, now, **about)
    audit.made(session, made.id)
    return made


@router.delete("/{annotation_id}", status_code=204, responses=router.problems(404))
@Permission.TRIAGE.required
def remove_annotation(
    annotation_id: dependencies.Id, session: dependencies.DatabaseSession
) -> None:
    """Remove an annotation."""
    annotation_table.remove(session, annotation_id)
