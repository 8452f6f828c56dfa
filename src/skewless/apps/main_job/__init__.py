"""The job of `skewless demo`: a word count with expensive words, under several strategies."""
