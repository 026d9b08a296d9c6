"""Says what its config is, and passes images on."""

import json

import constants


def process(connection, config, header):
    connection.send_logging(constants.MRD_LOGGING_INFO, json.dumps(config, sort_keys=True))
    for item in connection:
        connection.send(item)
