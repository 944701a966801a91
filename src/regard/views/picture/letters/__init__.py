"""The font that comes with regard, so that pictures show Korean, Japanese and Chinese letters on every machine."""
