"""The translation service (`regard serve`): an HTTP server that translates texts with one translator."""
