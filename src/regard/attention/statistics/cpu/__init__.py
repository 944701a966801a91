"""The CPU engine: a C kernel that computes softmax attention and its statistics together."""
