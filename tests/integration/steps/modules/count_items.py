"""Says how many items of which kind came."""

import collections


def process(connection, config, header):
    kinds, last = collections.Counter(), None
    for item in connection:
        kinds[type(item).__name__] += 1
        last = item
    for kind, count in kinds.items():
        connection.send_logging("INFO    ", f"{count} {kind} of {last.data.ravel().tolist()}")
