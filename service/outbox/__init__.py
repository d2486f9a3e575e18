"""Tells other programs what happened: at least once, with an id that makes it once.

`events.write` stores an event in the transaction of the change itself. `deliveries` makes one row
for each sink that hears it, and `couriers` sends those rows.
"""
