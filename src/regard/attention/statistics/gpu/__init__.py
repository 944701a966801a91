"""Statistics on a GPU: two kernels in Triton, one that goes from query to query and one that goes from key to key."""
