"""Text: two files of lines in, a vocabulary and batches of ids out."""
