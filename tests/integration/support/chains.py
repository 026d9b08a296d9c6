"""Pipelines that a test writes by their gadgets, and scans through them."""

import wire


def pipeline(*gadgets, keys=""):
    """The message of a pipeline; `keys`: lines beside its chain, such as `input: images`."""
    lines = "".join(f"  - {gadget}\n" for gadget in gadgets)
    head = f"{keys.rstrip()}\n" if keys.strip() else ""
    return wire.config_text(f"echotrain: 1\nname: test\ndescription: A test\n{head}pipeline:\n{lines}")


def through(server, config, header, messages):
    """The reply to a whole scan, in which nothing may have gone wrong."""
    reply = wire.exchange(server.address, [config, header, *messages, wire.close()])
    assert not reply.errors(), reply.texts
    return reply
