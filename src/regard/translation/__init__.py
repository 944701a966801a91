"""Translation: searching for the best target text, saying how it is aligned, scoring it, handing it on."""
