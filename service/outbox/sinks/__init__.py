"""Sinks: who hears which events. One module is one kind, and `kinds` names them all."""

from service.outbox.sinks.kinds import NOBODY, Sinks, SinksWrong, load
from service.outbox.sinks.sink import Sending, Sink

__all__ = ["NOBODY", "Sending", "Sink", "Sinks", "SinksWrong", "load"]
