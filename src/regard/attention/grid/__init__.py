"""The grid batch × heads × queries × keys, its tiles, and the selections that an index names."""
