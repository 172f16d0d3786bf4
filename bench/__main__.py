"""`make bench`."""

from bench import speed, stability


def main() -> None:
    """Print all figures."""
    for size in (1_000, 10_000):
        print(f"CPU of one request inside the library / json.dumps of its {size:,} messages")
        for name, ratio in speed.figures(size).items():
            print(f"  {name:<20} {ratio:5.2f}")
    print("Unchanged prefix of the prompt, share of all tokens sent")
    for name, share in stability.figures().items():
        print(f"  {name:<42} {share:5.0%}")


main()
