"""The files of a training: its folder, checkpoints, snapshots and log."""
