"""Tells which process serves a scan, and writes down each process that has loaded this module."""

import os

import echotrain
from echotrain import CoilImages

VERSION = "1"


@echotrain.step(takes=CoilImages, gives=CoilImages)
def who(images):
    images.meta.update({"Process": str(os.getpid()), "Version": VERSION, "Scans": str(who.scans)})
    who.scans += 1
    return images


def process(connection, config, header):
    for item in connection:
        item.meta["Process"] = str(os.getpid())
        connection.send_image(item)


who.scans = 0
with open(os.path.join(os.path.dirname(os.path.dirname(__file__)), "loaded"), "a") as file:
    file.write(f"{os.getpid()}\n")
