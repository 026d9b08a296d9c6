"""A connection that is written to while somebody reads it."""

import contextlib
import threading


@contextlib.contextmanager
def sending(connection, pieces, timeout_s=60):
    """A thread sends the pieces as they are made, while the block reads. The server must take all of them."""
    failure = []

    def send():
        try:
            for piece in pieces:
                connection.sendall(piece)
        except OSError as error:
            failure.append(error)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    yield
    sender.join(timeout_s)
    assert not failure, f"the server stopped reading: {failure[0]}"
