"""The templates of pages, which escape all that they show, and the words that they show it in."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks.catalog.metrics import metric
from service.dashboard import assets, figures, finding_labels, labels
from service.wording import device_hours, formats, intervals, overtaken

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.globals.update(
    asset=assets.url,
    plotly_styles=assets.plotly_styles,
    words=labels,
    finding_words=finding_labels,
    metric=metric,
    formats=formats,
    intervals=intervals,
    best_words=overtaken,
    cost_words=device_hours,
)
TEMPLATES.filters.update(
    number=formats.number,
    quantity=formats.quantity,
    quantities=formats.quantities,
    change=formats.change,
    share=formats.share,
    size=formats.size,
    threshold=formats.threshold,
    times=formats.times,
    duration=formats.duration,
    moment=formats.moment,
    revision=formats.revision,
    embed=figures.embed,
)
