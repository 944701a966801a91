"""Statistics on a CPU: softmax attention and its statistics in one pass of a C kernel."""
