"""`make bench`."""

from bench import speed, stability


def main() -> None:
    """Print all figures."""
    for size in (1_000, 10_000):
        print(f"CPU of one request inside the library / json.dumps of its {size:,} messages")
        for name, ratio in speed.figures(size).items():
            print(f"  {name:<20} {ratio:5.2f}")
    for line in stability.lines():
        print(line)


main()
