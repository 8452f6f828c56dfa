"""`python -m skewless` is `skewless`."""

from skewless.cli import main

if __name__ == "__main__":
    main()
