"""Gives everything back as it is."""


def process(connection, config, header):
    for item in connection:
        connection.send(item)
