"""Recordings of wrapped clients: the three SDKs, in front of two servers that this project did not write.

``scenarios/``  what an application does, written once; ``journey.py`` is what is said in it
``record.py``   starts the servers, plays every scenario and writes ``recorded/*.yaml``: `make cassettes`
``tape.py``     what of a request and a response is kept, and what has to match
``servers.py``  aimock and llmock, installed into a temporary folder

The tests play the same scenarios against the recordings, with no server: a request that leaves with another body finds no answer.
"""
