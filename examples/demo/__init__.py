"""`python -m examples.demo`: what an application gets from the library, shown on the real SDKs without a key or a network."""
