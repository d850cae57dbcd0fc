"""GT2's connection of a program to a dispatcher."""
from .. import pool


class Client:
    """A program's connection. One is in use at a time: that which was connected last."""

    def __init__(self, dispatcher_host="localhost", dispatcher_port=9000):
        self.host, self.port = dispatcher_host, dispatcher_port

    def connect(self):
        """Uses the dispatcher's pool from now on, in the place of the one before."""
        pool.disconnect()
        pool.connect(f"{self.host}:{self.port}", self)

    def disconnect(self):
        """Ends the session, if it is this one's."""
        if self.connection is not None:
            pool.disconnect()

    @property
    def connection(self):
        """The session; None when this client is not connected."""
        return pool.session() if pool.client() is self else None

    def workers(self):
        """The names of the workers."""
        from .. import debug
        return list(debug.get_worker_stats())
