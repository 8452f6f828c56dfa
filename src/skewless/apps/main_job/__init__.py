"""The job of `skewless demo`: a word count with costly words, under several strategies."""
